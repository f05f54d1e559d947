"""`verify-pack`: read packs whole and compare them with their indexes."""

from __future__ import annotations

import sys
from collections import Counter

from impl.context import Context
from impl.errors import Corrupt, UsageError
from impl.objects.pack_file import Pack
from impl.objects.pack_format import TYPE_NAMES
from impl.objects.pack_verify import pack_problems
from impl.options import parse_options

_USAGE = "usage: refgit verify-pack [-v] PACK.idx..."


def run(context: Context, arguments: list[str]) -> int:
    """Verify each; with `-v` list its objects. 1 if any is damaged.

    Raises UsageError, OSError.
    """
    options = parse_options(arguments, _USAGE, flags="verbose|v")
    if not options.rest:
        raise UsageError(_USAGE)
    repository = context.repository
    code = 0
    for argument in options.rest:
        stem = context.path(argument).removesuffix(".idx").removesuffix(".pack")
        pack = Pack(repository.port, stem, repository.algorithm)
        problems = pack_problems(pack)
        for problem in problems:
            sys.stderr.write(f"error: {problem}\n")
        if options.flags and not problems:
            _list(context, pack)
        if options.flags:
            context.print(f"{pack.path}: {'bad' if problems else 'ok'}")
        code |= bool(problems)
    return code


def _list(context: Context, pack: Pack) -> None:
    """One line an object, by offset: name, type, size, size in the pack, offset, depth, base."""
    index = pack.index
    depths: dict[int, int] = {}
    lengths: Counter[int] = Counter()
    starts = [index.offsets[position] for position in index.by_offset]
    ends = [*starts[1:], pack.data.end]
    for position, offset, end in zip(index.by_offset, starts, ends, strict=True):
        header = pack.data.header(offset)
        kind, content = pack.data.read(offset)
        size = len(content) if header.kind in TYPE_NAMES else header.size_bytes
        line = f"{index.names.name_at(position).hex()} {TYPE_NAMES[kind]:<6} {size} "
        line += f"{end - offset} {offset}"
        if header.kind not in TYPE_NAMES:
            base = pack.data.base_offset(header)
            if base is None:
                raise Corrupt(f"{pack.path}: the delta at offset {offset} has no base")
            depths[offset] = depths.get(base, 0) + 1
            name = index.names.name_at(pack.positions_by_offset[base])
            line += f" {depths[offset]} {name.hex()}"
        lengths[depths.get(offset, 0)] += 1
        context.print(line)
    for length, count in sorted(lengths.items()):
        plural = "object" if count == 1 else "objects"
        context.print(
            f"chain length = {length}: {count} {plural}"
            if length
            else f"non delta: {count} {plural}"
        )

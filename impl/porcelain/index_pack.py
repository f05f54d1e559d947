"""`index-pack`: make the .idx and .rev of a pack, of a file or from standard input.

The pack's checksum and every object in it are verified before anything becomes visible.
"""

from __future__ import annotations

import os

from impl.context import Context
from impl.durability.components import Component
from impl.durability.port import map_file
from impl.errors import InvalidInput, UsageError
from impl.objects.idx import encode_index
from impl.objects.pack_build import NewPack, encode_reverse
from impl.objects.pack_receive import (
    STREAM_NAME,
    complete_thin_pack,
    outside_bases,
    receive_pack,
    scanned_pack,
)
from impl.objects.pack_scan import PackScan
from impl.options import parse_options
from impl.repository import Repository

_USAGE = "usage: refgit index-pack [--stdin [--fix-thin] [--keep[=MSG]]] [-o IDX] [PACK]"


def run(context: Context, arguments: list[str]) -> int:
    """Index the pack; print its checksum, after `pack` or `keep` and a tab if it was a stream.

    Raises UsageError, StoreError (DamagedPack, ObjectTooLarge, …), OSError.
    """
    options = parse_options(
        ["--keep=" if argument == "--keep" else argument for argument in arguments],
        _USAGE,
        flags="stdin fix-thin v q rev-index no-rev-index",
        values="keep o threads",
    )
    repository = context.repository
    if "stdin" in options.flags:
        if options.rest:
            raise UsageError(f"--stdin takes no file here\n{_USAGE}")
        keep = options.value("keep")
        checksum = _index_stream(context, keep, fix_thin="fix-thin" in options.flags)
        context.print(f"{'pack' if keep is None else 'keep'}\t{checksum}")
        return 0
    if len(options.rest) != 1 or not options.rest[0].endswith(".pack"):
        raise UsageError(_USAGE)
    path = context.path(options.rest[0])
    output = options.value("o")
    context.print(index_file(repository, path, None if output is None else context.path(output)))
    return 0


def _index_stream(context: Context, keep: str | None, *, fix_thin: bool) -> str:
    """Store the pack on standard input; its checksum."""
    repository = context.repository
    algorithm, port = repository.algorithm, repository.port
    base = f"{repository.objects.directory}/pack/pack"
    with repository.transaction() as transaction:
        new = NewPack(transaction, base)
        data = receive_pack(context.input, new, port)
        scan = PackScan(data, algorithm, STREAM_NAME, outside_bases(repository.objects))
        pack = scanned_pack(scan)
        if scan.outside_bases:
            if not fix_thin:
                raise InvalidInput(
                    f"{STREAM_NAME} is thin: it lacks the bases of deltas; use --fix-thin"
                )
            pack = complete_thin_pack(data, scan, pack, new, port, algorithm)
        if keep is not None:
            note = f"{keep}\n".encode() if keep else b""
            final = f"{base}-{pack.checksum.hex()}.keep"
            transaction.write(Component.PACK_METADATA, final, note)
        new.stage(pack, algorithm)
    repository.objects.packs.refresh()
    return pack.checksum.hex()


def index_file(repository: Repository, path: str, index_path: str | None = None) -> str:
    """Write the .idx and .rev beside a pack file; returns the pack's checksum."""
    algorithm = repository.algorithm
    scan = PackScan(map_file(repository.port, path), algorithm, path, lambda name: None)
    pack = scanned_pack(scan)
    final = path[: -len(".pack")] + ".idx" if index_path is None else index_path
    reverse_path = os.path.splitext(final)[0] + ".rev"
    index = encode_index(pack.entries, pack.checksum, algorithm)
    with repository.transaction() as transaction:
        transaction.write(Component.PACK_METADATA, reverse_path, encode_reverse(pack, algorithm))
        transaction.write(Component.PACK_METADATA, final, index)
    return pack.checksum.hex()

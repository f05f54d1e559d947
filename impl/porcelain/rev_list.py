"""`rev-list`: the commits, and with `--objects` everything else, that can be reached."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator

from impl.context import Context
from impl.errors import UsageError
from impl.objects.bitmap_read import BitmapIndex, open_bitmap, reach_with_bitmap
from impl.objects.walk import Reached, Walk
from impl.objects.walk_roots import all_roots
from impl.options import Options, parse_options
from impl.porcelain.numbers import number_option
from impl.porcelain.pack_objects import reader
from impl.repository import Repository
from impl.revisions import find_object

_USAGE = (
    "usage: refgit rev-list [--objects] [--use-bitmap-index] [--count] [--max-count=N] [--reflog]\n"
    "       [--test-bitmap] (--all | REVISION...) [^REVISION...]"
)


def run(context: Context, arguments: list[str]) -> int:
    """List object names, newest commits first; trees and blobs with the path they were found at.

    Raises UsageError, InvalidName, Corrupt, ObjectMissing, OSError.
    """
    options = parse_options(
        arguments,
        _USAGE,
        flags="all objects use-bitmap-index test-bitmap count reflog",
        values="max-count|n",
    )
    repository = context.repository
    tips, excluded = _tips(repository, options)
    if not tips and not options.flags & {"all", "reflog"}:
        raise UsageError(_USAGE)
    if "test-bitmap" in options.flags:
        return _test_bitmap(context, tips)
    found = _reached(context, options, tips, excluded)
    if "objects" not in options.flags:
        found = (reached for reached in found if reached.type_name == "commit")
    found = _limited(found, number_option(options, "max-count", sys.maxsize))
    if "count" in options.flags:
        context.print(str(sum(1 for _ in found)))
        return 0
    no_paths = "use-bitmap-index" in options.flags
    for reached in found:
        with_path = reached.type_name != "commit" and not no_paths
        context.output.write(_line(reached, with_path=with_path))
    return 0


def _tips(repository: Repository, options: Options) -> tuple[list[bytes], list[bytes]]:
    tips: list[bytes] = []
    excluded: list[bytes] = []
    if options.flags & {"all", "reflog"}:
        tips = all_roots(repository, reflogs="reflog" in options.flags, index=False)
    for revision in options.rest:
        first, dots, last = revision.partition("..")
        if dots:
            excluded.append(_resolved(repository, first or "HEAD"))
            tips.append(_resolved(repository, last or "HEAD"))
        elif revision.startswith("^"):
            excluded.append(_resolved(repository, revision[1:]))
        else:
            tips.append(_resolved(repository, revision))
    return tips, excluded


def _resolved(repository: Repository, revision: str) -> bytes:
    return bytes.fromhex(find_object(repository, revision))


def _reached(
    context: Context, options: Options, tips: list[bytes], excluded: list[bytes]
) -> Iterator[Reached]:
    repository = context.repository
    read = reader(repository)
    width = repository.algorithm.size_bytes
    hidden: set[bytes] = set()
    if excluded:
        hidden = {found.name for found in Walk(read, width).reach(excluded)}
    if "use-bitmap-index" in options.flags:
        bitmap = open_bitmap(repository.objects.packs, context.warn)
        if bitmap is not None:
            found = reach_with_bitmap(bitmap, tips, read, width)
            return (reached for reached in found if reached.name not in hidden)
    walk = Walk(read, width)
    return walk.reach(tips, hidden, commits_only="objects" not in options.flags)


def _limited(found: Iterable[Reached], limit: int) -> Iterator[Reached]:
    """Everything but the commits that come after the first `limit` of them."""
    commits = 0
    for reached in found:
        commits += reached.type_name == "commit"
        if reached.type_name != "commit" or commits <= limit:
            yield reached


def _line(reached: Reached, *, with_path: bool) -> bytes:
    """Bitmaps know no paths, so git leaves the blank out with them."""
    name = reached.name.hex().encode("ascii")
    return name + b"\n" if not with_path else b"%s %s\n" % (name, reached.path)


def _test_bitmap(context: Context, tips: list[bytes]) -> int:
    """Compare each tip's bitmap with a walk; 128 and a word on standard error if they differ."""
    repository = context.repository
    bitmap = open_bitmap(repository.objects.packs, context.warn)
    if bitmap is None:
        raise UsageError("there is no bitmap to test: write one with repack -a -d -b")
    for tip in tips:
        problem = _bitmap_problem(repository, bitmap, tip)
        if problem is not None:
            sys.stderr.write(f"fatal: {problem}{os.linesep}")
            return 128
    sys.stderr.write("OK!\n")
    return 0


def _bitmap_problem(repository: Repository, bitmap: BitmapIndex, tip: bytes) -> str | None:
    bits = bitmap.commit(tip)
    if bits is None:
        return f"Commit {tip.hex()} doesn't have an indexed bitmap"
    walk = Walk(reader(repository), repository.algorithm.size_bytes)
    walked = {(found.name, found.type_name) for found in walk.reach([tip])}
    listed = {(found.name, found.type_name) for found in bitmap.members(bits)}
    if walked != listed:
        return f"mismatch in bitmap results for {tip.hex()}: {len(walked ^ listed)} objects differ"
    return None

"""Merging trees file by file: a file that only one side changed is that side's."""

from collections.abc import Mapping
from typing import NamedTuple

from impl.errors import Conflict
from impl.objects.model import TreeEntry
from impl.paths import printable

Side = tuple[int, str] | None
"""A file's mode and object name; None where it does not exist."""


class Change(NamedTuple):
    """What a merge does to one of our files. :ivar new: None for its removal."""

    path: bytes
    new: TreeEntry | None


def merge_files(
    base: Mapping[bytes, TreeEntry],
    ours: Mapping[bytes, TreeEntry],
    theirs: Mapping[bytes, TreeEntry],
) -> list[Change]:
    """What has to change in ours, in order of paths.

    Raises Conflict for a file that both sides changed, differently: lines are not merged; and for
    a file on one side that is a directory on the other.
    """
    changes = []
    for path in sorted(base.keys() | ours.keys() | theirs.keys()):
        before, mine, other = _side(base, path), _side(ours, path), _side(theirs, path)
        if other in (before, mine):
            continue
        if mine != before:
            raise Conflict(
                f"'{printable(path)}' was changed on both sides, and lines are not merged here: "
                "commit or undo one of the changes first"
            )
        changes.append(Change(path, theirs.get(path)))
    _check_no_file_is_directory(ours, changes)
    return changes


def _side(files: Mapping[bytes, TreeEntry], path: bytes) -> Side:
    entry = files.get(path)
    return None if entry is None else (entry.mode, entry.object_name)


def _check_no_file_is_directory(ours: Mapping[bytes, TreeEntry], changes: list[Change]) -> None:
    after = set(ours)
    for change in changes:
        if change.new is None:
            after.discard(change.path)
        else:
            after.add(change.path)
    for path in after:
        parts = path.split(b"/")
        for count in range(1, len(parts)):
            if b"/".join(parts[:count]) in after:
                raise Conflict(f"'{printable(path)}' is below what is a file on the other side")

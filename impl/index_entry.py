"""One entry of the index, and what it remembers of a file. Source: gitformat-index(5)."""

from typing import NamedTuple


class StatData(NamedTuple):
    """What the index remembers of a file's inode, each in 32 bits; all 0 where nothing is known."""

    changed_seconds: int = 0
    changed_nanoseconds: int = 0
    modified_seconds: int = 0
    modified_nanoseconds: int = 0
    device: int = 0
    inode: int = 0
    user: int = 0
    group: int = 0
    size_bytes: int = 0


class IndexEntry(NamedTuple):
    """One path of the index.

    :ivar path: raw bytes, relative to the working tree's root, with slashes.
    :ivar mode: as in a tree: 0o100644, 0o100755, 0o120000, 0o160000.
    :ivar object_name: hexadecimal.
    :ivar stage: 0, or 1 to 3 for the sides of a conflict.
    """

    path: bytes
    mode: int
    object_name: str
    stat: StatData = StatData()
    stage: int = 0
    assume_valid: bool = False
    skip_worktree: bool = False
    intent_to_add: bool = False

    @property
    def key(self) -> tuple[bytes, int]:
        """What entries are sorted by, and unique in."""
        return self.path, self.stage

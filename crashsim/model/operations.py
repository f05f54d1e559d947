"""The log of a simulated machine: what programs did to its filesystem, by inode.

Operations are numbered in the order in which they were made. Numbers stay when operations are
taken out of a log (`Log.without`), so gaps are legal; order is what counts.
"""

from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from crashsim.model.tree import Node, Tree


class Slot(NamedTuple):
    """A name in a directory."""

    directory: int
    name: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A change of names: create, mkdir, symlink, link, unlink, rmdir, rename.

    :ivar inode: what the names are for.
    :ivar created: what the inode is at first, where it is new.
    :ivar replaced: the inode that the added name was for until then.
    """

    number: int
    inode: int
    text: str
    removed: Slot | None = None
    added: Slot | None = None
    created: Node | None = None
    replaced: int | None = None
    is_directory: bool = False

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The names that it changes, the removed one first."""
        return tuple(slot for slot in (self.removed, self.added) if slot is not None)


@dataclass(frozen=True, slots=True)
class Write:
    """write(2) to a regular file. Sizes are the file's, in bytes, before and after."""

    number: int
    inode: int
    path: str
    offset: int
    data: bytes
    size_before: int

    @property
    def end(self) -> int:
        """The offset behind the last byte."""
        return self.offset + len(self.data)

    @property
    def extends(self) -> bool:
        """Whether the file grew."""
        return self.end > self.size_before

    @property
    def text(self) -> str:
        """For people."""
        return f"write {len(self.data)} bytes at {self.offset} of {self.path}"


@dataclass(frozen=True, slots=True)
class Resize:
    """ftruncate(2), or open(2) with O_TRUNC."""

    number: int
    inode: int
    path: str
    length: int
    size_before: int

    @property
    def text(self) -> str:
        """For people."""
        return f"truncate {self.path} to {self.length} bytes"


@dataclass(frozen=True, slots=True)
class ChangeMode:
    """fchmod(2): permission bits."""

    number: int
    inode: int
    path: str
    mode: int

    @property
    def text(self) -> str:
        """For people."""
        return f"chmod {self.path} to {self.mode:o}"


@dataclass(frozen=True, slots=True)
class Close:
    """The first close(2) of a file since it was truncated to nothing; others are not noted."""

    number: int
    inode: int
    path: str

    @property
    def text(self) -> str:
        """For people."""
        return f"close {self.path}"


class Scope(Enum):
    """What a sync is asked to make durable."""

    FILE = "fsync"
    DATA = "fdatasync"
    PAGES = "sync_file_range"
    FILESYSTEM = "syncfs"


@dataclass(frozen=True, slots=True)
class Sync:
    """A sync of a file, a directory or the filesystem, which has returned.

    `PAGES` stands for a sync_file_range(2) that covers the file and waits for the writes that it
    starts; one that does less promises less than anything that a model could use.
    """

    number: int
    scope: Scope
    inode: int
    path: str
    is_directory: bool = False

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.scope.value} {self.path}"


@dataclass(frozen=True, slots=True)
class FailedSync:
    """A sync that returned an error. The pages that it was to write are clean now: nobody will.

    :ivar lost: (inode, number of a change): the data of that change and of later ones of this
        inode may never reach the disk, whatever later syncs say.
    """

    number: int
    scope: Scope
    inode: int
    path: str
    lost: tuple[tuple[int, int], ...]

    @property
    def text(self) -> str:
        """For people."""
        return f"{self.scope.value} {self.path} fails"


@dataclass(frozen=True, slots=True)
class Promise:
    """What the program said must hold from here on."""

    number: int
    value: object

    @property
    def text(self) -> str:
        """For people."""
        return f"promise {self.value!r}"


FileChange: TypeAlias = Write | Resize | ChangeMode
Operation: TypeAlias = Entry | FileChange | Close | Sync | FailedSync | Promise


@dataclass(frozen=True, slots=True)
class Log:
    """What happened since `base`, which is durable.

    :ivar mounts: the inodes of directories in `base` at which other filesystems are mounted: what
        is below each is on a device of its own, which a crash cuts at the same instant.
    """

    base: Tree
    operations: tuple[Operation, ...]
    mounts: tuple[int, ...] = ()

    def without(self, numbers: Collection[int]) -> "Log":
        """The log of the same run with these syncs left out (no program notices a sync).

        :raises ValueError: one of the operations is no sync: what came after it may depend on it.
        """
        for operation in self.operations:
            if operation.number in numbers and not isinstance(operation, Sync):
                raise ValueError(f"operation {operation.number} ({operation.text}) is no sync")
        kept = tuple(each for each in self.operations if each.number not in numbers)
        return Log(self.base, kept, self.mounts)

    @property
    def inodes(self) -> frozenset[int]:
        """Every inode that there is at some time."""
        named = (each.inode for each in self.operations if isinstance(each, Entry))
        return frozenset(self.base.inodes.values()).union(named)

    @property
    def syncs(self) -> tuple[Sync, ...]:
        """Its syncs, in order."""
        return tuple(each for each in self.operations if isinstance(each, Sync))

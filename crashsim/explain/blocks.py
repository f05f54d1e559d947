"""What a written block is, as a filesystem's on-disk format names it.

Each filesystem has a module of its own (`ext4`, `xfs`, `btrfs`, `f2fs`) with a *layout*: the
geometry read from the superblock, and the rules that name a block by its place and its content.
Images come from guests and are untrusted: a layout checks every number that it takes from one, and
what does not parse is "unknown", never an exception.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from crashsim.errors import UsageError

ReadBytes = Callable[[int, int], bytes]
"""(offset, length), both in bytes, -> that part of the disk at the start of the exploration. May
be shorter than asked for at the end of the disk."""


class NoLayout(UsageError):
    """The disk holds no filesystem of the expected kind, or one whose geometry is absurd."""


class Role(Enum):
    """What a block does for what a crash leaves behind.

    :cvar COMMIT: makes everything of its transaction count after recovery (a jbd2 commit block, an
        xfs log record, a btrfs superblock, the last block of an f2fs checkpoint pack).
    :cvar FSYNC: makes one file's metadata count after recovery (an f2fs node with the fsync mark).
    :cvar JOURNAL: part of a transaction that does not count before its COMMIT.
    :cvar METADATA: metadata at its home: it counts at once, or (copy-on-write) with its COMMIT.
    :cvar DATA: a file's content.
    :cvar UNKNOWN: neither place nor content tells: in an area that holds data or metadata.
    """

    COMMIT = "commit"
    FSYNC = "fsync"
    JOURNAL = "journal"
    METADATA = "metadata"
    DATA = "data"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Block:
    """One block (or run of blocks of one kind) of a write.

    :ivar start: bytes from the write's first byte.
    :ivar length_bytes: how many bytes of the write it covers.
    :ivar what: in words, without an article: `journal commit block 17`.
    :ivar transaction: the transaction that it is part of, in the filesystem's own numbering (`17`);
        empty where it has none, or where the block does not say.
    :ivar home: where recovery puts a journaled copy, in bytes from the start of the disk; None for
        everything else.
    """

    start: int
    length_bytes: int
    role: Role
    what: str
    transaction: str = ""
    home: int | None = None


@dataclass(frozen=True, slots=True)
class Owner:
    """An inode that has data at some place.

    :ivar size_bytes: the file's size by the same block; None where the block does not say.
    """

    inode: int
    size_bytes: int | None = None


class Layout(Protocol):
    """One filesystem on one disk, able to name what is written to it.

    `blocks` must be called for every write in the order of the log: journal descriptors name the
    blocks that follow them.
    """

    fstype: str
    transaction_word: str
    """What the filesystem's documentation calls a transaction's end: `journal commit`."""

    def blocks(self, offset_bytes: int, data: bytes) -> list[Block]:
        """Name a write at that place of the disk: blocks that cover it, in order, without gaps."""

    def entries(self, data: bytes, name: bytes) -> frozenset[int]:
        """The inodes that directory entries called `name` in a block of metadata point to.

        :param data: the block's bytes.

        Empty where there is no such entry, or where the format does not show it in one block.
        """

    def owners(self, home_bytes: int, data: bytes, place_bytes: int) -> frozenset[Owner]:
        """The inodes that, by a block of metadata, keep file data at a place of the disk.

        :param home_bytes: where the block belongs on the disk (for a journaled copy: its `home`).
        """

    def inline_owners(self, data: bytes, content: bytes) -> frozenset[int]:
        """The inodes that keep exactly `content` inside a block of metadata, for small files."""


def unpack(layout: str, data: bytes, offset: int = 0) -> tuple[Any, ...] | None:
    """`struct.unpack_from`, but None where `data` is too short for it."""
    if offset < 0 or offset + struct.calcsize(layout) > len(data):
        return None
    return struct.unpack_from(layout, data, offset)


def pieces(data: bytes, size: int) -> Iterator[tuple[int, bytes]]:
    """(offset, piece) of `data` cut into `size` bytes each; the last may be shorter."""
    for start in range(0, len(data), size):
        yield start, data[start : start + size]


def merged(blocks: Sequence[Block]) -> list[Block]:
    """Join neighbours of unknown kind; blocks of metadata stay apart, each is read on its own."""
    joined: list[Block] = []
    for block in blocks:
        last = joined[-1] if joined else None
        alike = last is not None and (last.role, last.what) == (block.role, block.what)
        if last is not None and alike and block.role is Role.UNKNOWN:
            length = last.length_bytes + block.length_bytes
            joined[-1] = Block(last.start, length, last.role, last.what)
        else:
            joined.append(block)
    return joined


def shown(names: list[bytes], most: int = 3) -> str:
    """Some file names in words, with escapes for what is not printable."""
    texts = [repr(name.decode("utf-8", "backslashreplace"))[1:-1] for name in names]
    more = f" and {len(texts) - most} more" if len(texts) > most else ""
    return ", ".join(texts[:most]) + more

"""Inodes of the simulated operating system, and what a path leads to."""

from dataclasses import dataclass

from crashsim.model.tree import ROOT_INODE, Directory, File, Node, Symlink

FIRST_DEVICE = 1
"""`st_dev` of the filesystem that the root is on."""


@dataclass(slots=True)
class Inode:
    """A file, directory or symbolic link. Exactly one of the three contents is there.

    :ivar mode: permission bits.
    :ivar device: of the filesystem that it is on: of the directory that it has a name in.
    :ivar was_emptied: truncated to nothing, and no descriptor closed since.
    :ivar dirty_since: the first write that no sync has made durable yet; None: there is none.
    """

    number: int
    mode: int
    device: int = FIRST_DEVICE
    links: int = 0
    content: bytearray | None = None
    entries: dict[str, int] | None = None
    target: str | None = None
    parent: int = ROOT_INODE
    descriptors: int = 0
    was_emptied: bool = False
    dirty_since: int | None = None
    access_ns: int = 0
    modification_ns: int = 0
    change_ns: int = 0

    def node(self) -> Node:
        """What it is now, as part of a tree."""
        if self.content is not None:
            return File(bytes(self.content), self.mode)
        return Directory(self.mode) if self.target is None else Symlink(self.target)


@dataclass(frozen=True, slots=True)
class Found:
    """Where a path leads.

    :ivar directory: the directory that the last name is in.
    :ivar name: the last name; `.`, `..` or `/` where the path ends in one of those.
    :ivar inode: what is there, or None.
    :ivar slash: the path ends with a slash: it has to be a directory.
    """

    directory: Inode
    name: str
    inode: Inode | None
    slash: bool

    @property
    def is_plain(self) -> bool:
        """Whether the last name is a name, not `.`, `..` or `/`."""
        return self.name not in (".", "..", "/")

"""From a trace: what was durable at the moment at which each file appeared under its final name.

A file is followed through its names. `Appearance` tells how it was synced before it appeared,
without any assumption on filesystems: the test says what each method has to have done.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tests.support.impl_trace import Step

_FINAL = (
    ("loose-object", r"\.git/objects/[0-9a-f]{2}/[0-9a-f]{38,62}"),
    ("pack", r"\.git/objects/pack/pack-[0-9a-f]+\.pack"),
    ("idx", r"\.git/objects/pack/pack-[0-9a-f]+\.idx"),
    ("pack-metadata", r"\.git/objects/pack/(?:pack-[0-9a-f]+\.(?:rev|bitmap)|multi-pack-index.*)"),
    ("index", r"\.git/index"),
    ("reference", r"\.git/(?:refs/.*|packed-refs|ORIG_HEAD|reftable/.*)"),
    ("reflog", r"\.git/logs/.*"),
    ("state", r"\.git/(?:HEAD|config)"),
)
_TEMPORARY = re.compile(
    r".*(?:\.lock|\.new|\.temp\.[^/]*|/tmp_[^/]*|/\.tmp-[^/]*|/bulk_fsync_[^/]*)"
)

_FLAG = re.compile(r"O_[A-Z]+")


def kind_of(path: str) -> str | None:
    """What a final name is; None for temporary names and files of the working tree."""
    if _TEMPORARY.fullmatch(path):
        return None
    for kind, pattern in _FINAL:
        if re.fullmatch(pattern, path):
            return kind
    return None


@dataclass
class _Inode:
    is_written_out: bool = False
    is_flushed: bool = False
    flushes_before_write_out: int = 0


@dataclass(frozen=True)
class Appearance:
    """A file that got its final name.

    :ivar flushed: its own fsync(2), or a syncfs(2), came after its last write.
    :ivar written_out: sync_file_range(2) came after its last write, or it was flushed.
    :ivar flush_since: after that writeout some file was fsynced.
    """

    kind: str
    path: str
    flushed: bool
    written_out: bool
    flush_since: bool


@dataclass
class Order:
    """What happened, in order.

    :ivar appearances: the files that got their final names.
    :ivar removals: the final names that were unlinked, with how many syncs of directories or of
        the filesystem had happened since the last appearance.
    :ivar open_names: final names whose directory nothing synced up to the command's end.
    """

    appearances: list[Appearance] = field(default_factory=list)
    removals: list[tuple[str, bool]] = field(default_factory=list)
    unsynced_names: set[str] = field(default_factory=set)


def order_of(steps: Iterable[Step]) -> Order:
    """Follow a trace."""
    followed = _Followed()
    for step in (step for step in steps if not step.failed):
        if step.call in ("fsync", "fdatasync", "syncfs", "sync_file_range"):
            followed.synced(step)
        elif step.call in ("link", "rename"):
            followed.named(step.paths[0], step.path)
        elif step.call in ("write", "ftruncate"):
            inode = followed.inode(step.path)
            inode.is_flushed = inode.is_written_out = False
        elif step.call == "openat" and {"O_CREAT", "O_EXCL"} <= set(_FLAG.findall(step.arguments)):
            followed.inodes[step.path] = _Inode()
        elif step.call == "unlink" and kind_of(step.path) is not None:
            order = followed.order
            order.removals.append((step.path, not order.unsynced_names))
            order.unsynced_names.discard(step.path)
    return followed.order


class _Followed:
    """The files of a trace, by their present names."""

    def __init__(self) -> None:
        self.order = Order()
        self.inodes: dict[str, _Inode] = {}
        self.flushes = 0

    def inode(self, path: str) -> _Inode:
        return self.inodes.setdefault(path, _Inode())

    def synced(self, step: Step) -> None:
        inode = self.inode(step.path)
        if step.call == "sync_file_range":
            inode.is_written_out, inode.flushes_before_write_out = True, self.flushes
            return
        self.flushes += 1
        unsynced = self.order.unsynced_names
        if step.call == "syncfs":
            unsynced.clear()
            for known in self.inodes.values():
                known.is_flushed = True
            return
        inode.is_flushed = True
        unsynced -= {name for name in unsynced if name.rpartition("/")[0] == step.path}

    def named(self, source: str, target: str) -> None:
        inode = self.inodes[target] = self.inode(source)
        kind = kind_of(target)
        if kind is None:
            return
        since = inode.is_written_out and self.flushes > inode.flushes_before_write_out
        written_out = inode.is_written_out or inode.is_flushed
        self.order.appearances.append(
            Appearance(kind, target, inode.is_flushed, written_out, since)
        )
        self.order.unsynced_names.add(target)

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
    order = Order()
    inodes: dict[str, _Inode] = {}
    flushes = 0
    for step in (step for step in steps if not step.failed):
        inode = inodes.setdefault(step.path, _Inode())
        if step.call == "openat" and "O_CREAT" in step.arguments and "O_EXCL" in step.arguments:
            inodes[step.path] = _Inode()
        elif step.call in ("write", "ftruncate"):
            inode.is_flushed = inode.is_written_out = False
        elif step.call == "sync_file_range":
            inode.is_written_out, inode.flushes_before_write_out = True, flushes
        elif step.call in ("fsync", "fdatasync"):
            flushes += 1
            inode.is_flushed = True
            order.unsynced_names = {
                name for name in order.unsynced_names if name.rpartition("/")[0] != step.path
            }
        elif step.call == "syncfs":
            flushes += 1
            order.unsynced_names.clear()
            for known in inodes.values():
                known.is_flushed = True
        elif step.call in ("link", "rename"):
            moved = inodes[step.path] = inodes.get(step.paths[0], _Inode())
            if (kind := kind_of(step.path)) is not None:
                since = moved.is_written_out and flushes > moved.flushes_before_write_out
                written_out = moved.is_written_out or moved.is_flushed
                order.appearances.append(
                    Appearance(kind, step.path, moved.is_flushed, written_out, since)
                )
                order.unsynced_names.add(step.path)
        elif step.call == "unlink" and kind_of(step.path) is not None:
            order.removals.append((step.path, not order.unsynced_names))
            order.unsynced_names.discard(step.path)
    return order

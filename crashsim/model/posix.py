"""Only what the standard promises.

fsync makes a file's content durable, fsync of a directory the names in it (POSIX.1-2017: fsync,
synchronized I/O file integrity completion). rename within a directory is one change. Nothing else
is ordered, no sync carries anything for another file.
"""

from dataclasses import dataclass, replace

from crashsim.model.operations import Entry, Log, Operation, Scope, Sync
from crashsim.model.persistence import DataRules, World, Worlds, near_the_ends


@dataclass(frozen=True, slots=True)
class Posix:
    """The model."""

    name: str
    data: DataRules

    def start(self, log: Log) -> "PosixTracker":
        """Begin with a log."""
        return PosixTracker(log)


POSIX = Posix("posix", DataRules(independent=True))


@dataclass(frozen=True, slots=True)
class _Subsets:
    """A world for each set of names, by the bits of its index: a bit set is a change lost."""

    after_base: tuple[Entry, ...]
    pending: tuple[Entry, ...]
    cut: int
    floors: dict[int, int]

    @property
    def count(self) -> int:
        return 1 << len(self.pending)

    def world(self, index: int) -> World:
        lost = {id(e) for bit, e in enumerate(self.pending) if index >> bit & 1}
        kept = []
        lost_directories: set[int] = set()
        for entry in self.after_base:
            if id(entry) in lost or entry.inode in lost_directories:
                # A directory has one place: it cannot be where it never was moved from.
                if entry.is_directory:
                    lost_directories.add(entry.inode)
            else:
                kept.append(entry)
        return World(tuple(kept), self.cut, self.floors)

    def listed(self) -> list[int]:
        return near_the_ends(self.count)


class PosixTracker:
    """Which names and which contents were synced."""

    def __init__(self, log: Log) -> None:
        """Begin with a log, nothing of it seen yet."""
        self._inodes = log.inodes
        self._entries: list[Entry] = []
        self._durable: set[int] = set()
        self._floors: dict[int, int] = {}
        self._settled = 0

    @property
    def settled(self) -> int:
        """The first change of names that may be lost has this number or a later one."""
        return self._settled

    def observe(self, operation: Operation) -> None:
        """Take the next operation into account."""
        match operation:
            case Entry():
                self._entries += _halves(operation)
            case Sync(scope=Scope.FILESYSTEM):
                self._floors = dict.fromkeys(self._inodes, operation.number)
                self._entries.clear()
                self._durable.clear()
                self._settled = operation.number
            case Sync(scope=Scope.FILE | Scope.DATA):
                self._floors[operation.inode] = operation.number
                if operation.is_directory:
                    self._sync_directory(operation.inode)

    def _sync_directory(self, directory: int) -> None:
        moved: set[int] = set()
        for entry in reversed(self._entries):
            if entry.inode in moved or any(slot.directory == directory for slot in entry.slots):
                self._durable.add(id(entry))
                if entry.is_directory:
                    moved.add(entry.inode)
        while self._entries:
            first = [e for e in self._entries[:2] if e.number == self._entries[0].number]
            if not all(id(e) in self._durable for e in first):
                break
            self._durable.difference_update(map(id, first))
            del self._entries[: len(first)]
            self._settled = first[0].number + 1

    def worlds(self, cut: int, _under_way: Sync | None) -> Worlds:
        """Any set of the names that were not synced."""
        pending = tuple(e for e in self._entries if id(e) not in self._durable)
        return _Subsets(tuple(self._entries), pending, cut, dict(self._floors))


def _halves(entry: Entry) -> list[Entry]:
    """A file's rename to another directory is two changes: neither directory knows the other."""
    removed, added = entry.removed, entry.added
    if removed is None or added is None or removed.directory == added.directory:
        return [entry]
    if entry.is_directory:
        return [entry]
    return [replace(entry, removed=None), replace(entry, added=None, replaced=None)]

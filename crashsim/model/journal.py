"""The family of models with one log of metadata, written in order: ext4, XFS, NTFS, APFS.

Changes of names, truncations and modes are records of one log, which a crash cuts somewhere. New
sizes are records, too, made as data is written back: at any time after the write, so they come
after every record made before it.
"""

from dataclasses import dataclass

from crashsim.model.operations import (
    ChangeMode,
    Close,
    Entry,
    Log,
    Operation,
    Resize,
    Scope,
    Sync,
    Write,
)
from crashsim.model.persistence import DataRules, World, WorldList, Worlds


@dataclass(frozen=True, slots=True)
class Journal:
    """A model of this family.

    :ivar replacement_is_ordered: a file that is renamed over another, or written anew after it was
        truncated to nothing and then closed, has its data on disk before the next commit.
    :ivar commit_flushes: a commit flushes the device before it, so that what was written out is
        there if the commit is. Otherwise only a sync does: a log that is written through the
        device's cache can overtake data which is still in it.
    """

    name: str
    data: DataRules
    replacement_is_ordered: bool = False
    commit_flushes: bool = True

    def start(self, log: Log) -> "JournalTracker":
        """Begin with a log."""
        return JournalTracker(self, log)


@dataclass(frozen=True, slots=True)
class Barrier:
    """A commit that contains a record numbered `after` or later has this file's data, too."""

    after: int
    inode: int
    upto: int


class JournalTracker:
    """What is durable, and what goes along with what."""

    def __init__(self, model: Journal, log: Log) -> None:
        """Begin with a log, nothing of it seen yet."""
        self._model = model
        self._inodes = log.inodes
        self._entries: list[Entry] = []
        self._records: list[int] = []
        self._durable = 0
        self._floors: dict[int, int] = {}
        self._barriers: list[Barrier] = []
        self._written_out: list[Barrier] = []
        self._last_change: dict[int, int] = {}
        self._last_data_change: dict[int, int] = {}
        self._emptied: set[int] = set()

    @property
    def settled(self) -> int:
        """Every record below this number is durable."""
        return self._durable

    def observe(self, operation: Operation) -> None:
        """Take the next operation into account."""
        number = operation.number
        match operation:
            case Entry():
                self._entries.append(operation)
                self._records.append(number)
                self._note_entry(operation)
            case Resize():
                self._records.append(number)
                self._changed_data(operation.inode, number)
                if operation.length == 0:
                    self._emptied.add(operation.inode)
            case ChangeMode():
                self._records.append(number)
                self._last_change[operation.inode] = number
            case Write():
                if operation.extends:
                    self._changed_data(operation.inode, number)
            case Close():
                if operation.inode in self._emptied and self._model.replacement_is_ordered:
                    self._barriers.append(Barrier(number, operation.inode, number))
                self._emptied.discard(operation.inode)
            case Sync():
                self._sync(operation)

    def _note_entry(self, entry: Entry) -> None:
        touched = {entry.inode, *(slot.directory for slot in entry.slots)}
        if entry.replaced is not None:
            touched.add(entry.replaced)
            if self._model.replacement_is_ordered:
                self._barriers.append(Barrier(entry.number, entry.inode, entry.number))
        for inode in touched:
            self._last_change[inode] = entry.number
        if entry.created is not None:
            self._last_data_change[entry.inode] = entry.number

    def _changed_data(self, inode: int, number: int) -> None:
        self._last_change[inode] = self._last_data_change[inode] = number

    def _sync(self, sync: Sync) -> None:
        """A sync forces the log as far as the inode's own last record, and what lies before it.

        Not as far as the sync: if that record has been committed meanwhile, as a timer does at any
        time, there is nothing to commit (ext4's i_sync_tid, XFS's ili_last_lsn).
        """
        match sync.scope:
            case Scope.PAGES:
                written = self._barriers if self._model.commit_flushes else self._written_out
                written.append(Barrier(sync.number, sync.inode, sync.number))
                return
            case Scope.FILESYSTEM:
                self._durable = sync.number
                self._floors = dict.fromkeys(self._inodes, sync.number)
            case Scope.FILE:
                self._force(self._last_change.get(sync.inode, -1))
                self._floors[sync.inode] = sync.number
            case Scope.DATA:
                self._force(self._last_data_change.get(sync.inode, -1))
                self._floors[sync.inode] = sync.number
        # Whatever it forced, it flushed the device.
        self._barriers += self._written_out
        self._written_out = []
        self._settle_barriers()

    def _force(self, record: int) -> None:
        self._durable = max(self._durable, record + 1)

    def _settle_barriers(self) -> None:
        """Barriers that the durable part of the log has passed hold in every world."""
        passed = [each for each in self._barriers if each.after < self._durable]
        _raise(self._floors, passed)
        self._barriers = [each for each in self._barriers if each.after >= self._durable]

    def worlds(self, cut: int, _under_way: Sync | None) -> Worlds:
        """One world for each place at which the log may end."""
        pending = [number for number in self._records if self._durable <= number < cut]
        worlds = []
        for index in range(len(pending), -1, -1):
            horizon = pending[index] if index < len(pending) else cut
            last = pending[index - 1] if index else self._durable - 1
            passed = [each for each in self._barriers if each.after <= last]
            floors = dict(self._floors)
            _raise(floors, passed)
            kept = tuple(e for e in self._entries if self._durable <= e.number < horizon)
            worlds.append(World(kept, horizon, floors))
        return WorldList(tuple(worlds))


def _raise(floors: dict[int, int], barriers: list[Barrier]) -> None:
    for barrier in barriers:
        floors[barrier.inode] = max(floors.get(barrier.inode, 0), barrier.upto)

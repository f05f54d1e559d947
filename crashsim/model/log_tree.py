"""The family of models with commits of everything, and single files synced ahead of them: btrfs
and f2fs.

A crash leaves the last commit, and on top of it each file that was synced since, with the names
that it needs to be found: later changes without the earlier ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from crashsim.model.journal import Barrier
from crashsim.model.operations import (
    ChangeMode,
    Entry,
    Log,
    Operation,
    Resize,
    Scope,
    Slot,
    Sync,
)
from crashsim.model.persistence import NEVER, DataRules, World, WorldList, Worlds


@dataclass(frozen=True, slots=True)
class LogTree:
    """A model of this family.

    :ivar keeps_displaced: a file that lost its name to a synced one is logged with its new name.
    :ivar logs_more: a sync may carry more names than it has to: those that synced files got since,
        and what else happened in the directories.
    :ivar directory_sync_commits: fsync of a directory is a commit of everything.
    :ivar names_before_data: while a file is synced, its names and size may be there without data.
    :ivar commit_has_written_data: a commit has the data that was written out and waited for before.
    :ivar first_sync_lags: the first sync of a file after a commit does not wait for the metadata
        that it writes: it is sure once the next sync has returned, whatever that is of.
    """

    name: str
    data: DataRules
    keeps_displaced: bool = False
    logs_more: bool = False
    directory_sync_commits: bool = False
    names_before_data: bool = False
    commit_has_written_data: bool = False
    first_sync_lags: bool = False

    def start(self, log: Log) -> "LogTreeTracker":
        """Begin with a log."""
        return LogTreeTracker(self, log)


@dataclass(frozen=True, slots=True)
class Without:
    """What is sure without the last sync, of a file: names, and how far which contents are.

    :ivar number: of that sync.
    """

    number: int
    ahead: Mapping[int, int]
    floors: Mapping[int, int]


class LogTreeTracker:
    """The last commit that is sure, and what was synced ahead of it."""

    def __init__(self, model: LogTree, log: Log) -> None:
        """Begin with a log, nothing of it seen yet."""
        self._model = model
        self._inodes = log.inodes
        self._entries: list[Entry] = []
        self._records: list[int] = []
        self._committed = 0
        self._ahead: dict[int, int] = {}
        self._synced: dict[int, int] = {}
        self._floors: dict[int, int] = {}
        self._written: list[Barrier] = []
        self._without: Without | None = None

    @property
    def settled(self) -> int:
        """Every change below this number is in the last commit."""
        return self._committed

    def observe(self, operation: Operation) -> None:
        """Take the next operation into account."""
        match operation:
            case Entry():
                self._entries.append(operation)
                self._records.append(operation.number)
            case Resize() | ChangeMode():
                self._records.append(operation.number)
            case Sync():
                self._sync(operation)

    def _sync(self, sync: Sync) -> None:
        number = sync.number
        if sync.scope is Scope.PAGES:
            if self._model.commit_has_written_data:
                self._written.append(Barrier(number, sync.inode, number))
            return
        self._without = None
        if sync.scope is Scope.FILESYSTEM:
            self._commit(number)
            self._floors = dict.fromkeys(self._inodes, number)
        elif sync.is_directory and self._model.directory_sync_commits:
            self._commit(number)
        else:
            if self._model.first_sync_lags:
                self._without = Without(number, self._ahead.copy(), self._floors.copy())
            self._synced[sync.inode] = number
            self._floors[sync.inode] = number
            self._ahead |= self._names_of(sync)

    def _names_of(self, sync: Sync) -> dict[int, int]:
        """The changes of names that a sync is for: a file's own, or those in a directory."""
        return {
            entry.number: sync.number
            for entry in self._entries
            if sync.inode == entry.inode
            or (sync.is_directory and any(slot.directory == sync.inode for slot in entry.slots))
        }

    def _commit(self, number: int) -> None:
        self._committed = number
        self._ahead.clear()
        self._synced.clear()
        for barrier in self._written:
            self._floors[barrier.inode] = max(self._floors.get(barrier.inode, 0), barrier.upto)
        self._written.clear()

    def worlds(self, cut: int, under_way: Sync | None) -> Worlds:
        """For each place at which the last commit may have been: what was synced on top of it."""
        pending = [number for number in self._records if self._committed <= number < cut]
        worlds: list[World] = []
        for index in range(len(pending), -1, -1):
            horizon = pending[index] if index < len(pending) else cut
            last = pending[index - 1] if index else self._committed - 1
            floors = self._with_written(self._floors, last)
            worlds += (World(kept, horizon, floors) for kept in dict.fromkeys(self._kept(horizon)))
            if under_way is not None and self._is_early(under_way):
                kept = self._complete(self._ahead | self._names_of(under_way), horizon)
                worlds.append(World(kept, horizon, floors, horizons={under_way.inode: NEVER}))
            if self._without is not None and last < self._without.number:
                kept = self._complete(dict(self._without.ahead), horizon)
                floors = self._with_written(self._without.floors, last)
                worlds.append(World(kept, horizon, floors))
        return WorldList(tuple(worlds))

    def _with_written(self, floors: Mapping[int, int], last: int) -> dict[int, int]:
        """Floors, with the data that a commit brings whose last record is `last`."""
        raised = dict(floors)
        for barrier in self._written:
            if barrier.after <= last:
                raised[barrier.inode] = max(raised.get(barrier.inode, 0), barrier.upto)
        return raised

    def _is_early(self, sync: Sync) -> bool:
        is_of_file = sync.scope in (Scope.FILE, Scope.DATA) and not sync.is_directory
        return self._model.names_before_data and is_of_file

    def _kept(self, horizon: int) -> list[tuple[Entry, ...]]:
        """The names on top of a commit at `horizon`: what must be, and what may be as well.

        A file that was synced since that commit is in the log: each new name that it gets goes
        there at once, and anybody's next fsync writes the log, up to there. One that was synced
        before the commit is in it no more, and its new names wait for the next commit.
        """
        sets = [dict(self._ahead)]
        synced = {inode: at for inode, at in self._synced.items() if at >= horizon}
        if self._model.logs_more and synced:
            moved = [e for e in self._entries if e.number > synced.get(e.inode, e.number)]
            for entry in moved:
                sets.append(sets[-1] | {entry.number: entry.number + 1})
            latest = max(synced.values())
            before = [each for each in self._entries if each.number < latest]
            whole = sets[0] | {e.number: latest for e in before if e.inode in synced}
            directories = {slot.directory for e in before if e.number in whole for slot in e.slots}
            near = {
                e.number: latest
                for e in before
                if any(slot.directory in directories for slot in e.slots)
            }
            sets += [whole, whole | near]
        return [self._complete(each, horizon) for each in sets]

    def _complete(self, ahead: dict[int, int], horizon: int) -> tuple[Entry, ...]:
        """Add what the synced names need: new directories above them, names that they displaced."""
        later = [e for e in self._entries if e.number >= max(horizon, self._committed)]
        ahead = dict(ahead)
        while True:
            more: dict[int, int] = {}
            for entry in later:
                synced_at = ahead.get(entry.number)
                if synced_at is None:
                    continue
                for slot in entry.slots[-1:]:
                    more |= self._directory(later, slot.directory, synced_at)
                    if self._model.keeps_displaced:
                        more |= self._displaced(later, slot, entry)
            if more.keys() <= ahead.keys():
                break
            ahead = more | ahead
        return tuple(
            e
            for e in self._entries
            if e.number >= self._committed and (e.number < horizon or e.number in ahead)
        )

    @staticmethod
    def _directory(later: list[Entry], directory: int, before: int) -> dict[int, int]:
        """The names of a directory that is new since the commit."""
        mine = [each for each in later if each.inode == directory and each.number < before]
        return {each.number: before for each in mine} if mine and mine[0].created else {}

    @staticmethod
    def _displaced(later: list[Entry], slot: Slot, taker: Entry) -> dict[int, int]:
        """What happened to the file that had this name in the commit, before it was taken."""
        first = next(each for each in later if slot in each.slots)
        if first.removed != slot:
            return {}
        return {
            each.number: taker.number
            for each in later
            if each.inode == first.inode and each.number < taker.number
        }

"""Several filesystems on one machine, each on a device of its own: one crash, at one instant.

A sync is of the filesystem that its file is on, and no filesystem owes anything to another: at a
cut each of them is in one of its own worlds, whatever the others are in. All follow one model.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain, product
from math import prod

from crashsim.model.operations import Entry, Log, Operation, Promise, Sync
from crashsim.model.persistence import (
    LISTED_WORLDS_LIMIT,
    NEVER,
    Model,
    Tracker,
    World,
    Worlds,
)
from crashsim.model.tree import ROOT_INODE, Tree


def start(model: Model, log: Log) -> Tracker:
    """Begin with a log of one filesystem or of several."""
    return SeveralTracker(model, log) if log.mounts else model.start(log)


def homes(log: Log) -> dict[int, int]:
    """Each inode's filesystem, by number: 0 for that of the root, then in the order of `mounts`."""
    numbers = {inode: number for number, inode in enumerate(log.mounts, 1)}
    found = {ROOT_INODE: 0}
    for path in sorted(log.base.inodes):
        inode = log.base.inodes[path]
        above = path.rpartition("/")[0]
        found[inode] = numbers.get(inode, found[log.base.inodes[above] if above else ROOT_INODE])
    for operation in log.operations:
        # No name leads from one filesystem to another: rename(2) and link(2) refuse (EXDEV).
        if isinstance(operation, Entry) and operation.inode not in found:
            found[operation.inode] = found[operation.slots[0].directory]
    return found


@dataclass(slots=True)
class _Filesystem:
    """One of them: what its model knows, and every change of names that was shown to it."""

    tracker: Tracker
    inodes: frozenset[int]
    entries: list[Entry] = field(default_factory=list)

    @property
    def first_unsure(self) -> int:
        """The first change of names that may be lost; NEVER: there is none."""
        settled = self.tracker.settled
        return next((e.number for e in self.entries if e.number >= settled), NEVER)

    def sure_from(self, number: int) -> list[Entry]:
        """Its changes of names with this number or a later one that are in each of its worlds and
        listed in none."""
        settled = self.tracker.settled
        return [each for each in self.entries if number <= each.number < settled]


class SeveralTracker:
    """A tracker for each filesystem, each shown what happens on its own."""

    def __init__(self, model: Model, log: Log) -> None:
        """Begin with a log, nothing of it seen yet."""
        self._homes = homes(log)
        self._filesystems = [
            _Filesystem(model.start(part), part.inodes) for part in self._parts(log)
        ]

    def _parts(self, log: Log) -> list[Log]:
        """The log as each filesystem has it."""
        return [
            Log(
                _restricted(log.base, {i for i, home in self._homes.items() if home == number}),
                tuple(each for each in log.operations if self._home(each) == number),
            )
            for number in range(len(log.mounts) + 1)
        ]

    def _home(self, operation: Operation) -> int | None:
        """The filesystem that an operation is on; None for what is on none."""
        return None if isinstance(operation, Promise) else self._homes[operation.inode]

    def observe(self, operation: Operation) -> None:
        """Take the next operation into account: on its filesystem, and on no other."""
        home = self._home(operation)
        if home is None:
            return
        if isinstance(operation, Entry):
            self._filesystems[home].entries.append(operation)
        self._filesystems[home].tracker.observe(operation)

    @property
    def settled(self) -> int:
        """Every change of names below this number is durable, on whichever filesystem."""
        return min(each.first_unsure for each in self._filesystems)

    def worlds(self, cut: int, under_way: Sync | None) -> Worlds:
        """Any world of one filesystem with any of each other one."""
        home = None if under_way is None else self._home(under_way)
        settled = self.settled
        return _Product(
            tuple(
                each.tracker.worlds(cut, under_way if number == home else None)
                for number, each in enumerate(self._filesystems)
            ),
            tuple(each.inodes for each in self._filesystems),
            tuple(chain(*(each.sure_from(settled) for each in self._filesystems))),
        )


def _restricted(tree: Tree, inodes: set[int]) -> Tree:
    """The paths of a tree that lead to these inodes. Its digest says nothing."""
    kept = {path: inode for path, inode in tree.inodes.items() if inode in inodes}
    return Tree({path: tree[path] for path in kept}, kept, 0)


@dataclass(frozen=True, slots=True)
class _Product:
    """One world of each filesystem: the last one's counts up fastest.

    :ivar inodes: of each filesystem.
    :ivar sure: changes of names that are in all worlds, and not settled on all filesystems.
    """

    parts: tuple[Worlds, ...]
    inodes: tuple[frozenset[int], ...]
    sure: tuple[Entry, ...]

    @property
    def count(self) -> int:
        return prod(each.count for each in self.parts)

    def world(self, index: int) -> World:
        picks = []
        for part in reversed(self.parts):
            index, pick = divmod(index, part.count)
            picks.append(pick)
        worlds = [part.world(pick) for part, pick in zip(self.parts, reversed(picks), strict=True)]
        kept = sorted(chain(self.sure, *(each.kept for each in worlds)), key=lambda e: e.number)
        floors: dict[int, int] = {}
        horizons: dict[int, int] = {}
        for world, inodes in zip(worlds, self.inodes, strict=True):
            floors |= {inode: floor for inode, floor in world.floors.items() if inode in inodes}
            horizons |= {inode: world.horizon_of(inode) for inode in inodes}
        return World(tuple(kept), worlds[0].horizon, floors, horizons)

    def listed(self) -> list[int]:
        """All, or each of one filesystem with the first and the last of the others.

        Those come first in which one filesystem loses all that it can and another one nothing.
        """
        if self.count <= LISTED_WORLDS_LIMIT:
            return list(range(self.count))
        ends = [(0, part.count - 1) for part in self.parts]
        found = [self._index(corner) for corner in product(*ends)]
        for number, part in enumerate(self.parts):
            for others in ([0] * len(self.parts), [end for _, end in ends]):
                for pick in part.listed():
                    found.append(self._index([*others[:number], pick, *others[number + 1 :]]))
        return list(dict.fromkeys(found))

    def _index(self, picks: Sequence[int]) -> int:
        index = 0
        for part, pick in zip(self.parts, picks, strict=True):
            index = index * part.count + pick
        return index

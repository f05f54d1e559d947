"""Every filesystem that a power cut may leave of a log, under a persistence model."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from crashsim.model.contents import PIECES_DEFAULT, Lost
from crashsim.model.history import Files
from crashsim.model.lost_pages import LostPages
from crashsim.model.namespace import Namespace
from crashsim.model.operations import Entry, Log, Operation, Promise, Sync
from crashsim.model.persistence import Model
from crashsim.model.several import start
from crashsim.model.space import Point, Prepared, Space
from crashsim.model.tree import Tree

STALE_LIMIT = 64
"""So many states in a row that were seen before, and a cut is left alone."""


@dataclass(frozen=True, slots=True)
class CrashState:
    """One filesystem that a crash may leave, and how it may come about.

    :ivar digest: equal for equal trees.
    :ivar promises: what had been promised before the power went, in order.
    """

    digest: int
    promises: tuple[object, ...]
    _space: Space
    _prepared: Prepared
    _picks: tuple[int, ...]
    _log: Log

    @property
    def tree(self) -> Tree:
        """The filesystem after recovery; built when asked for."""
        return self._space.tree(self._prepared, self._picks)

    @property
    def cut(self) -> int:
        """The least number of an operation before which the power may have gone."""
        last = self._prepared.last_kept
        for variable, pick in zip(self._prepared.variables, self._picks, strict=True):
            last = max(last, variable.choices[pick].last_kept)
        return max(self._space.least_cut, last + 1)

    @property
    def lost(self) -> tuple[Lost, ...]:
        """What did not survive of the operations before the cut, in order.

        Changes of a file that has no name left are not listed: nobody can miss them.
        """
        found = list(self._prepared.lost)
        for variable, pick in zip(self._prepared.variables, self._picks, strict=True):
            found += variable.choices[pick].lost
        cut = self.cut
        return tuple(sorted((e for e in found if e.number < cut), key=lambda each: each.number))

    def describe(self) -> str:
        """For people: where the power went, and what was lost."""
        texts = {each.number: each.text for each in self._log.operations}
        lines = [f"power cut before operation {self.cut}"]
        lines += (f"  {each.number}: {texts[each.number]}: {each.loss.value}" for each in self.lost)
        return "\n".join(lines) if self.lost else lines[0] + ", nothing lost"


class CrashStates:
    """The crash states of a log, each distinct one once: iterate to explore them.

    Two states are the same if their trees are equal and the same promises had been made.

    :ivar possible: how many ways there are to lose something at some cut (equal results counted
        apart; an upper bound where there are too many worlds to count them all).
    :ivar explored: how many ways were looked at so far.
    :ivar distinct: how many states those gave.
    """

    def __init__(
        self,
        log: Log,
        model: Model,
        *,
        limit: int | None = None,
        seed: int = 0,
        since: int = 0,
        pieces: int | None = PIECES_DEFAULT,
    ) -> None:
        """Prepare the exploration.

        :param limit: all states where there are so many ways at most; else so many, from the
            simple to the random, spread over the log.
        :param seed: of what is random; the same seed gives the same states.
        :param since: cuts before the operation with this number are not looked at.
        :param pieces: as many pieces may a single write be torn into; None: all units.
        """
        self._log, self._limit, self._seed = log, limit, seed
        self.model = model
        self.spaces = tuple(_spaces(log, model, since, pieces))
        self.possible = sum(space.possible for space in self.spaces)
        self.explored = 0
        self.distinct = 0
        promises = tuple(e.value for e in log.operations if isinstance(e, Promise))
        self._promises = [promises[:count] for count in range(len(promises) + 1)]

    def __iter__(self) -> Iterator[CrashState]:
        """Begin anew, in the same order."""
        self.explored = self.distinct = 0
        seen: set[tuple[int, int]] = set()
        if self._limit is None or self.possible <= self._limit:
            points = self._every()
        else:
            points = self._sample(seen, self._limit)
        for space, (prepared, picks, digest) in points:
            self.explored += 1
            key = (space.promises, digest)
            if key not in seen:
                seen.add(key)
                self.distinct += 1
                made = self._promises[space.promises]
                yield CrashState(digest, made, space, prepared, picks, self._log)

    def _every(self) -> Iterator[tuple[Space, Point]]:
        for space in self.spaces:
            for point in space.every():
                yield space, point

    def _sample(self, seen: set[tuple[int, int]], limit: int) -> Iterator[tuple[Space, Point]]:
        """States of all cuts in turn; a cut that has nothing new to show drops out."""
        turns = deque(
            (space, space.simple_first(Random(f"{self._seed} {space.cut}")), [0])
            for space in reversed(self.spaces)
        )
        while turns and self.distinct < limit:
            space, points, stale = turns.popleft()
            point = next(points)
            known = (space.promises, point[2]) in seen
            stale[0] = stale[0] + 1 if known else 0
            yield space, point
            if stale[0] < STALE_LIMIT:
                turns.append((space, points, stale))


def crash_states(
    log: Log,
    model: Model,
    *,
    limit: int | None = None,
    seed: int = 0,
    since: int = 0,
    pieces: int | None = PIECES_DEFAULT,
) -> CrashStates:
    """What a power cut may leave of a log; see `CrashStates` for the parameters."""
    return CrashStates(log, model, limit=limit, seed=seed, since=since, pieces=pieces)


def _spaces(log: Log, model: Model, since: int, pieces: int | None) -> Iterator[Space]:
    """One space for each cut that has states which no other cut has.

    Between two syncs or promises the last cut has the states of all: what comes after an earlier
    cut may be lost at a later one.
    """
    tracker, files, names = start(model, log), Files(log.base, model.data), Namespace(log.base)
    entries: deque[Entry] = deque()
    lost_pages = LostPages()
    promises = least_cut = 0

    def space_at(cut: int, under_way: Sync | None) -> Space:
        worlds = lost_pages.limit(tracker.worlds(cut, under_way))
        files.settle(worlds.world(worlds.count - 1))
        settled = tracker.settled
        while entries and entries[0].number < settled:
            names.apply(entries.popleft())
        view = files.snapshot()
        pending = tuple(entries)
        return Space(
            cut, least_cut, promises, worlds, pending, names.copy(), view, model.data, pieces
        )

    cut = -1
    for operation in log.operations:
        cut = operation.number
        if isinstance(operation, Sync | Promise):
            if cut >= since:
                yield space_at(cut, operation if isinstance(operation, Sync) else None)
            promises += isinstance(operation, Promise)
            least_cut = cut + 1
        tracker.observe(operation)
        files.observe(operation)
        lost_pages.observe(operation)
        _keep(entries, operation)
    yield space_at(cut + 1, None)


def _keep(entries: deque[Entry], operation: Operation) -> None:
    if isinstance(operation, Entry):
        entries.append(operation)


def allows(log: Log, model: Model, tree: Tree, *, pieces: int | None = None) -> bool:
    """Whether a model allows that some crash of this log leaves exactly this tree."""
    return any(space.allows(tree) for space in _spaces(log, model, 0, pieces))

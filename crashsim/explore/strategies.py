"""Which crash states of one cut to look at, from the simple to the wild.

A strategy is a name and a generator of the states of one cut. Each is deterministic: whatever is
random in it comes from the generator that it is given, which is seeded by (seed, strategy, cut).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from random import Random

import numpy as np

from crashsim.disk.log import NEVER
from crashsim.disk.state import CrashState
from crashsim.explore.order import stratified
from crashsim.explore.timeline import Int64s, Timeline
from crashsim.explore.torn import torn_states

SUBSETS_PENDING_LIMIT = 6
"""Every subset is tried where that is cheaper than sampling: 2**6 states a cut at most."""


@dataclass(frozen=True)
class CutView:
    """One cut, as strategies see it.

    :ivar atomic_unit_bytes: the device's atomic write unit.
    """

    timeline: Timeline
    cut: int
    atomic_unit_bytes: int

    @cached_property
    def rows(self) -> Int64s:
        """Rows of the pending writes, in the order of submission."""
        return self.timeline.pending_rows(self.cut)

    @cached_property
    def pending(self) -> tuple[int, ...]:
        """Numbers of the pending writes, in the order of submission."""
        return tuple(self.timeline.writes[self.rows].tolist())

    def drop(self, writes: Iterator[int] | tuple[int, ...]) -> CrashState:
        """The state that loses `writes` and nothing else."""
        return CrashState(self.cut, frozenset(writes))

    def keep(self, writes: tuple[int, ...]) -> CrashState:
        """The state that loses every pending write but `writes`."""
        return CrashState(self.cut, frozenset(self.pending).difference(writes))


Generate = Callable[[CutView, Random], Iterator[CrashState]]


@dataclass(frozen=True)
class Strategy:
    """A way to choose crash states at a cut.

    :ivar name: how reports call it, as the end of "every …" or "… states".
    :ivar weight: its share of a budget that is too small for everything.
    :ivar least_pending: with fewer pending writes at a cut it has nothing new to say about it.
    :ivar most_pending: with more it gives up.
    :ivar bounded: whether it ever ends; `all` exhausts the bounded ones.
    """

    name: str
    weight: int
    generate: Generate
    least_pending: int = 0
    most_pending: int = NEVER
    bounded: bool = True


def prefix(view: CutView, _random: Random) -> Iterator[CrashState]:
    """Nothing is lost: the writes reached the media in the order of submission."""
    yield CrashState(view.cut)


def durable_only(view: CutView, _random: Random) -> Iterator[CrashState]:
    """Everything that may be lost is lost."""
    yield view.drop(view.pending)


def _shuffled(view: CutView, random: Random) -> Iterator[int]:
    """The pending writes, so that any beginning is spread over all of them."""
    count = len(view.pending)
    for index in stratified(count, random.randrange(count)):
        yield view.pending[index]


def drop_one(view: CutView, random: Random) -> Iterator[CrashState]:
    """One write is lost, later ones are not."""
    return (view.drop((write,)) for write in _shuffled(view, random))


def keep_one(view: CutView, random: Random) -> Iterator[CrashState]:
    """One write overtook all the others."""
    return (view.keep((write,)) for write in _shuffled(view, random))


def neighbourhoods(view: CutView, random: Random) -> Iterator[CrashState]:
    """The pending writes to one contiguous piece of the disk are lost, or overtake all others.

    The blocks of one file, or of one journal transaction, lie side by side.
    """
    groups = contiguous_groups(view)
    for index in stratified(len(groups), random.randrange(len(groups))) if groups else ():
        yield view.drop(groups[index])
        yield view.keep(groups[index])


def contiguous_groups(view: CutView) -> list[tuple[int, ...]]:
    """The pending writes in groups of two or more whose extents touch or overlap."""
    timeline, rows = view.timeline, view.rows
    rows = rows[np.argsort(timeline.offset_bytes[rows], kind="stable")]
    ends = np.maximum.accumulate(timeline.offset_bytes[rows] + timeline.length_bytes[rows])
    breaks = np.flatnonzero(timeline.offset_bytes[rows][1:] > ends[:-1]) + 1
    parts = np.split(timeline.writes[rows], breaks)
    return [tuple(sorted(part.tolist())) for part in parts if len(part) > 1]


def runs(view: CutView, random: Random) -> Iterator[CrashState]:
    """2, 4, 8, … writes in a row are lost; each run overlaps the next by half."""
    pending = view.pending
    length = 2
    while length < len(pending):
        step = length // 2
        count = (len(pending) - length) // step + 1
        for index in stratified(count, random.randrange(count)):
            yield view.drop(pending[index * step : index * step + length])
        length *= 2


def pairs(view: CutView, random: Random) -> Iterator[CrashState]:
    """Any two writes are lost."""
    count = len(view.pending)
    for gap in stratified(count - 1):
        span = count - 1 - gap
        for index in stratified(span, random.randrange(span)):
            yield view.drop((view.pending[index], view.pending[index + gap + 1]))


def subsets(view: CutView, _random: Random) -> Iterator[CrashState]:
    """Any set of writes is lost, where few enough are pending to try them all."""
    for size in range(len(view.pending) + 1):
        yield from (view.drop(dropped) for dropped in combinations(view.pending, size))


def random_subsets(view: CutView, random: Random) -> Iterator[CrashState]:
    """Each write is lost by the toss of a coin, which differs from state to state. Never ends."""
    while True:
        loss = random.choice((0.5, 0.5, 0.2, 0.8, 0.05, 0.95))
        yield view.drop(tuple(write for write in view.pending if random.random() < loss))


def torn(view: CutView, random: Random) -> Iterator[CrashState]:
    """One write is torn at the device's atomic unit."""
    for write in _shuffled(view, random):
        yield from torn_states(view.timeline, view.cut, write, view.atomic_unit_bytes, random)


STRATEGIES: tuple[Strategy, ...] = (
    Strategy("prefix", 6, prefix),
    Strategy("only what is durable", 3, durable_only, 1),
    Strategy("drop one", 4, drop_one, 1),
    Strategy("keep one", 2, keep_one, 2),
    Strategy("neighbourhood", 2, neighbourhoods, 2),
    Strategy("run", 1, runs, 3),
    Strategy("pair", 1, pairs, 3),
    Strategy("torn", 2, torn, 1),
    Strategy("subset", 1, subsets, 4, SUBSETS_PENDING_LIMIT),
    Strategy("random subset", 2, random_subsets, 4, bounded=False),
)
"""All strategies, the simplest first."""

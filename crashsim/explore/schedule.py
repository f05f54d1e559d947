"""The one sequence of crash states that an exploration follows, however far it gets."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random

from crashsim.disk.state import CrashState
from crashsim.explore.cuts import Cuts, pending_counts
from crashsim.explore.order import Stream, round_robin, stratified, weighted_merge
from crashsim.explore.strategies import STRATEGIES, CutView, Strategy
from crashsim.explore.timeline import Int64s, Timeline

FOCUS_WEIGHT = 3
"""How much likelier a cut is chosen where the pending set is largest or a promise was just made."""

EARLY_WEIGHT = 4
"""How much likelier a cut is chosen in the part that the schedule is to dwell on: half of all."""

REPEATS_LIMIT = 2000
"""So many states in a row that were met before mean that a sampler has seen what there is."""


@dataclass(eq=False)
class Schedule:
    """Every crash state that the strategies choose, each once, in a fixed order for a seed.

    Strategies take turns by weight, and each visits the cuts in an order of which any beginning is
    spread over the whole log: the first N states are a fair sample for every N, and the first
    N of a larger budget are those of a smaller one.

    Iterating yields states in canonical form (`Timeline.canonical`); it can be done once.

    :ivar limit: how many states to give; None: until every bounded strategy is exhausted.
    :ivar early_end: half of the states are at cuts up to here, as long as there are some; None: no
        part of the log is preferred.
    :ivar given: strategy name -> states given so far.
    :ivar exhausted: names of the strategies that have nothing left.
    :ivar finished: whether it was followed to its end.
    """

    timeline: Timeline
    cuts: Cuts
    atomic_unit_bytes: int
    seed: int
    limit: int | None
    early_end: int | None = None
    strategies: Sequence[Strategy] = STRATEGIES
    given: Counter[str] = field(default_factory=Counter)
    exhausted: set[str] = field(default_factory=set)
    finished: bool = False

    def __iter__(self) -> Iterator[CrashState]:
        """The states. To be iterated once."""
        yield from self._states()
        self.finished = True

    def _states(self) -> Iterator[CrashState]:
        streams = [
            Stream(strategy.name, strategy.weight, self._stream(strategy))
            for strategy in self.strategies
            if strategy.bounded or self.limit is not None
        ]
        seen: set[CrashState] = set()
        repeats = 0
        for name, state in weighted_merge(streams):
            if self.limit is not None and len(seen) >= self.limit:
                return
            canonical = self.timeline.canonical(state)
            if canonical in seen:
                repeats += 1
                if repeats > REPEATS_LIMIT and self._only_samplers_left(streams):
                    return
                continue
            repeats = 0
            seen.add(canonical)
            self.given[name] += 1
            yield canonical

    def _only_samplers_left(self, streams: Sequence[Stream[CrashState]]) -> bool:
        bounded = {strategy.name for strategy in self.strategies if strategy.bounded}
        return all(stream.name in self.exhausted for stream in streams if stream.name in bounded)

    def _stream(self, strategy: Strategy) -> Iterator[CrashState]:
        cuts, pending = self.cuts, self._pending_counts
        fits = (pending >= strategy.least_pending) & (pending <= strategy.most_pending)
        focus = cuts.peaks | cuts.promised
        parts: list[Stream[CrashState]] = []
        if self.early_end is not None:
            early = cuts.positions <= self.early_end
            states = self._over(strategy, cuts.positions[fits & early])
            parts.append(Stream("early", EARLY_WEIGHT, states))
            fits &= ~early
        parts += [
            Stream("focus", FOCUS_WEIGHT, self._over(strategy, cuts.positions[fits & focus])),
            Stream("rest", 1, self._over(strategy, cuts.positions[fits & ~focus])),
        ]
        for _, state in weighted_merge(parts):
            yield state
        self.exhausted.add(strategy.name)

    @cached_property
    def _pending_counts(self) -> Int64s:
        return pending_counts(self.timeline, self.cuts.positions)

    def _over(self, strategy: Strategy, positions: Int64s) -> Iterator[CrashState]:
        if len(positions) == 0:
            return iter(())
        random = Random(f"{self.seed}:{strategy.name}")
        return round_robin(
            self._at(strategy, int(positions[index]))
            for index in stratified(len(positions), random.randrange(len(positions)))
        )

    def _at(self, strategy: Strategy, cut: int) -> Iterator[CrashState]:
        view = CutView(self.timeline, cut, self.atomic_unit_bytes)
        return strategy.generate(view, Random(f"{self.seed}:{strategy.name}:{cut}"))

"""Exploring a log: its crash states in the schedule's order, decided, counted and summed up."""

import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from crashsim.disk.state import CrashState
from crashsim.explore.coverage import coverage_sentence
from crashsim.explore.cuts import meaningful_cuts, possible_states
from crashsim.explore.deciding import Decider
from crashsim.explore.engine import Engine
from crashsim.explore.exploration import (
    Exploration,
    Kind,
    failures_of,
    in_order,
    kind_of,
    property_counts,
)
from crashsim.explore.schedule import Schedule
from crashsim.explore.verdict import Verdict

Progress = Callable[[int, int, int], None]
"""Called as progress(states decided, states to decide or 0, kinds of violations so far)."""


@dataclass(frozen=True, kw_only=True)
class Budget:
    """How far to go.

    :ivar states: how many crash states; None: every bounded strategy to its end.
    :ivar time_limit_seconds: stop then; None: never.
    :ivar seed: decides which states are sampled when there are more than `states`.
    """

    states: int | None = 300
    time_limit_seconds: float | None = None
    seed: int = 0


def explore(
    decider: Decider,
    engine: Engine,
    budget: Budget,
    atomic_unit_bytes: int,
    progress: Progress | None = None,
    *,
    early_end: int | None = None,
) -> Exploration:
    """Decide the crash states of a log.

    :param decider: what `engine` decides with; it says what a state's images and promises are.
    :param atomic_unit_bytes: where writes are torn (`DeviceProfile.atomic_unit_bytes`).
    :param early_end: as `Schedule` has it.
    :raises InfrastructureError: when machines fail; nothing is concluded then.
    """
    started = time.perf_counter()
    timeline = decider.timeline
    cuts = meaningful_cuts(timeline, lambda cut: decider.images.identity(CrashState(cut)))
    schedule = Schedule(timeline, cuts, atomic_unit_bytes, budget.seed, budget.states, early_end)
    decided: dict[int, tuple[CrashState, Verdict]] = {}
    kinds: set[Kind] = set()
    with closing(engine.decide_all(schedule, budget.time_limit_seconds)) as verdicts_by_place:
        for place, state, verdict in verdicts_by_place:
            decided[place] = state, verdict
            kinds.update(map(kind_of, verdict.violations))
            if progress is not None:
                progress(len(decided), budget.states or 0, len(kinds))
    results = in_order(decided)
    verdicts = {state: verdict.violations for state, verdict in results if _conclusive(verdict)}
    possible = possible_states(timeline)
    seconds = {**decider.seconds, "explore": time.perf_counter() - started}
    return Exploration(
        verdicts=verdicts,
        inconclusive={
            state: verdict.inconclusive for state, verdict in results if verdict.inconclusive
        },
        failures=failures_of(verdicts),
        decided_by=Counter(verdict.decided_by for _, verdict in results),
        properties=property_counts(verdicts.values(), decider.oracle.properties),
        possible=possible,
        distinct=len(decider.distinct),
        coverage=coverage_sentence(
            (state for state, _ in results), possible, atomic_unit_bytes, schedule.exhausted
        ),
        seconds=seconds,
        time_over=not schedule.finished,
    )


def _conclusive(verdict: Verdict) -> bool:
    """Violations that were found stand, even where the check broke down later on."""
    return bool(verdict.violations) or not verdict.inconclusive

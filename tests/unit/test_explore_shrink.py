"""Shrinking and telling, on recordings of the toy store."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crashsim.disk.state import CrashState, TornWrite
from crashsim.explore.cuts import meaningful_cuts
from crashsim.explore.exploration import Failure, kind_of, simplicity
from crashsim.explore.minimize import BudgetSpent, ShrinkBudget, boundary, minimize
from crashsim.explore.needed import Telling, restorations, tell
from crashsim.explore.shrink import Trials, shrink
from crashsim.explore.verdict import DecidedBy, Verdict
from crashsim.oracles.protocol import Property, Violation
from tests.support.toy_exploring import Toy, ToyRecoverer
from tests.support.toy_store import Flaw, Put

PUTS = (Put(1), Put(2, 2), Put(1, 0, True), Put(3, 1))


class Shrinking:
    """One recording, its decider, and what shrinking asked of it."""

    def __init__(self, directory: Path, flaw: Flaw) -> None:
        self.toy = Toy.record(directory / "log", PUTS, flaw)
        self.decider = self.toy.decider()
        self.recoverer = ToyRecoverer(self.toy.images)
        self.asked: list[CrashState] = []

    def close(self) -> None:
        self.recoverer.disk.close()
        self.toy.log.close()

    def decide(self, state: CrashState) -> Verdict:
        self.toy.images.check_legal(state)
        self.asked.append(state)
        return self.decider.decide(state, self.recoverer)

    def trials(self, failure: Failure, budget: ShrinkBudget | None = None) -> Trials:
        return Trials(
            self.decide,
            self.toy.timeline,
            failure.kind,
            failure.state,
            failure.violation,
            budget or ShrinkBudget(),
        )

    def reduce(self, failure: Failure) -> tuple[Trials, Telling]:
        trials = self.trials(failure)
        assert shrink(trials, meaningful_cuts(self.toy.timeline))
        return trials, tell(trials)


Make = Callable[[Flaw], Shrinking]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    with ExitStack() as stack:
        yield lambda flaw: stack.enter_context(closing(Shrinking(tmp_path, flaw)))


def failures_everywhere(shrinking: Shrinking) -> list[Failure]:
    """Every explored state that fails, as a failure of its own."""
    exploration = shrinking.toy.explore()
    return [
        Failure(state, violation)
        for state, violations in exploration.verdicts.items()
        for violation in violations
    ]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(
    ("flaw", "dropped", "torn"),
    [
        # Requests: 0 superblock, 1 flush; then value, commit record, flush of the first put ...
        (Flaw.MISSING_FLUSH, {2}, set()),
        # ... or commit record, value, flush.
        (Flaw.COMMIT_FIRST, {3}, set()),
        # ... or value, flush that does not cover it, commit record, flush.
        (Flaw.FLUSH_IN_FLIGHT, {2}, set()),
        # ... or value, flush, commit record, and the promise at once.
        (Flaw.EARLY_PROMISE, {4}, set()),
        # Superblocks are rewritten after the third put.
        (Flaw.ONE_SUPERBLOCK, set(), {TornWrite(18, (0,))}),
    ],
)
def test_every_flaw_is_found_and_shrunk_to_its_first_chance(
    make: Make, flaw: Flaw, dropped: set[int], torn: set[TornWrite], seed: int
) -> None:
    shrinking = make(flaw)
    (failure,) = shrinking.toy.explore(states=300, seed=seed).failures
    trials, telling = shrinking.reduce(failure)
    assert telling.state == trials.best
    assert set(telling.state.dropped) == dropped
    assert set(telling.state.torn) == torn
    assert set(telling.needed) == dropped | {tear.write for tear in torn}
    assert telling.clean


@pytest.mark.parametrize("flaw", [Flaw.MISSING_FLUSH, Flaw.EARLY_PROMISE, Flaw.ONE_SUPERBLOCK])
def test_whatever_it_starts_from_it_ends_in_a_minimal_failing_state(make: Make, flaw: Flaw) -> None:
    shrinking = make(flaw)
    for failure in failures_everywhere(shrinking)[::4]:
        trials = shrinking.trials(failure)
        assert shrink(trials, meaningful_cuts(shrinking.toy.timeline))
        assert trials.fails(trials.best)
        assert simplicity(trials.best) <= simplicity(failure.state)
        for _, restored in restorations(trials.best):
            assert not trials.fails(restored)


def test_a_spent_budget_leaves_the_simplest_state_so_far(make: Make) -> None:
    shrinking = make(Flaw.ONE_SUPERBLOCK)
    worst = max(failures_everywhere(shrinking), key=lambda failure: simplicity(failure.state))
    trials = shrinking.trials(worst, ShrinkBudget(checks=1))
    assert not shrink(trials, meaningful_cuts(shrinking.toy.timeline))
    assert shrinking.decide(trials.best).violations


def test_nothing_is_asked_twice_and_prunings_are_free(make: Make) -> None:
    shrinking = make(Flaw.COMMIT_FIRST)
    (failure,) = shrinking.toy.explore(states=300).failures
    trials, _ = shrinking.reduce(failure)
    assert len(shrinking.asked) == len(set(shrinking.asked))
    assert trials.budget.spent < len(shrinking.asked)


def test_a_prefix_is_told_by_the_write_that_it_lacks(make: Make) -> None:
    shrinking = make(Flaw.COMMIT_FIRST)
    prefixes = [
        failure for failure in failures_everywhere(shrinking) if simplicity(failure.state)[1] == 0
    ]
    assert prefixes
    for failure in prefixes:
        trials, telling = shrinking.reduce(failure)
        (lost,) = telling.needed
        assert telling.state.dropped == {lost}
        assert trials.violation.property is Property.INTACT
        assert trials.verdict(CrashState(telling.state.cut)).clean


def test_a_violation_that_no_later_write_mends_stays_a_plain_cut(make: Make) -> None:
    shrinking = make(Flaw.COMMIT_FIRST)
    (failure,) = shrinking.toy.explore(states=300).failures
    broken = shrinking.decide(failure.state)
    trials = Trials(
        lambda _: broken,
        shrinking.toy.timeline,
        failure.kind,
        failure.state,
        failure.violation,
        ShrinkBudget(),
    )
    shrink(trials, meaningful_cuts(shrinking.toy.timeline))
    telling = tell(trials)
    assert telling == Telling(CrashState(shrinking.toy.timeline.start), (), clean=False)


@settings(deadline=None)
@given(st.sets(st.integers(0, 30)), st.integers(0, 40))
def test_ddmin_keeps_exactly_what_is_needed(needed: set[int], count: int) -> None:
    items = list(range(count))
    wanted = needed & set(items)

    def fails(some: Sequence[int]) -> bool:
        return wanted <= set(some)

    assert set(minimize(items, fails)) == wanted


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(1, 12), st.integers(0, 5))
def test_ddmin_is_one_minimal_where_failing_is_not_monotone(
    count: int, modulus: int, rest: int
) -> None:
    def fails(some: Sequence[int]) -> bool:
        return sum(some) % modulus == sum(range(count)) % modulus and len(some) >= rest

    smallest = minimize(range(count), fails)
    if smallest != list(range(count)):
        assert fails(smallest)
    for index in range(len(smallest)):
        assert not fails(smallest[:index] + smallest[index + 1 :])


def test_a_budget_ends_by_checks_and_by_time() -> None:
    ShrinkBudget(checks=1).require()
    with pytest.raises(BudgetSpent):
        ShrinkBudget(checks=0).require()
    with pytest.raises(BudgetSpent):
        ShrinkBudget(seconds=0).require()


@settings(deadline=None)
@given(st.integers(2, 200), st.sets(st.integers(0, 199)), st.sets(st.integers(0, 199)))
def test_a_boundary_is_one_and_costs_a_bisection(
    high: int, holding: set[int], hints: set[int]
) -> None:
    holding = (holding | {high}) - {0}
    asked: list[int] = []

    def holds(number: int) -> bool:
        asked.append(number)
        return number in holding

    between = sorted(hint for hint in hints if 0 < hint < high)
    found = boundary(0, high, holds, between)
    assert found in holding
    assert found - 1 not in holding
    assert len(asked) == len(set(asked))
    assert len(set(asked) - hints) <= high.bit_length()


def test_what_was_explored_spares_recoveries(make: Make) -> None:
    shrinking = make(Flaw.COMMIT_FIRST)
    exploration = shrinking.toy.explore()
    late = [
        Failure(state, violations[0])
        for state, violations in exploration.verdicts.items()
        if violations and not state.dropped and not state.torn
    ][-1]
    costs = []
    for explored in ((), exploration.verdicts):
        shrinking.decider = shrinking.toy.decider(frozenset({DecidedBy.SAME_IMAGE}))
        for state in explored:
            shrinking.decide(state)
        trials = shrinking.trials(late)
        trials.explored = explored
        assert shrink(trials, meaningful_cuts(shrinking.toy.timeline))
        shrinking_cost = trials.budget.spent
        assert tell(trials).needed == (3,)
        costs.append(shrinking_cost + trials.budget.spent)
    assert costs[0] > costs[1] == 0


def test_a_state_is_accepted_only_if_it_is_simpler_and_fails(make: Make) -> None:
    shrinking = make(Flaw.MISSING_FLUSH)
    failures = failures_everywhere(shrinking)
    simple = min(failures, key=lambda failure: simplicity(failure.state))
    complex_ = max(failures, key=lambda failure: simplicity(failure.state))
    trials = shrinking.trials(simple)
    assert not trials.accept(complex_.state), "it fails, but is not simpler"
    assert not trials.accept(CrashState(shrinking.toy.timeline.start)), "it does not fail"
    assert trials.best == simple.state
    trials = shrinking.trials(complex_)
    assert trials.accept(simple.state)
    assert trials.best == simple.state


def test_only_losses_that_make_a_difference_are_needed(make: Make) -> None:
    """Told without having been shrunk: a value's two writes are lost, and some noise with them."""
    shrinking = make(Flaw.MISSING_FLUSH)
    partly = 0
    for failure in failures_everywhere(shrinking):
        telling = tell(shrinking.trials(failure))
        mending = {
            write
            for write, restored in restorations(telling.state)
            if not shrinking.decide(restored).violations
        }
        assert set(telling.needed) == mending
        partly += 0 < len(telling.needed) < len(restorations(telling.state))
    assert partly, "some state loses a write that it does not hang on"


def test_where_nothing_is_clean_the_own_kind_decides(make: Make) -> None:
    """Prefixes with less than three writes fail in one way, those with less than six in another."""
    timeline = make(Flaw.MISSING_FLUSH).toy.timeline
    damaged = Violation(Property.INTACT, "damaged", "", "")
    lost = Violation(Property.DURABLE, "lost", "", "")
    first = int(np.searchsorted(timeline.submitted_at, timeline.start))

    def decide(state: CrashState) -> Verdict:
        kept = int(np.searchsorted(timeline.submitted_at, state.cut)) - first - len(state.dropped)
        return Verdict((damaged,) if kept < 3 else (lost,) if kept < 6 else ())

    for violation, culprit, clean in ((damaged, 3, False), (lost, 6, True)):
        start = CrashState(int(timeline.submitted_at[first + culprit - 2]) + 1)
        trials = Trials(
            decide, timeline, kind_of(violation), start, violation, ShrinkBudget(checks=400)
        )
        write = int(timeline.writes[first + culprit - 1])
        assert tell(trials).needed == (write,)
        assert tell(trials).clean is clean
        assert trials.best.dropped == {write}
        assert trials.violation == violation

"""Exploring with workers: what may not depend on them, and how they end."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crashsim.disk.state import CrashState
from crashsim.errors import InfrastructureError
from crashsim.explore.engine import LocalEngine
from crashsim.explore.exploring import Budget, Progress, explore
from crashsim.explore.recovery import RecovererAborted
from crashsim.explore.verdict import PRUNINGS, DecidedBy
from crashsim.oracles.protocol import Property
from tests.support.toy_exploring import Toy, ToyAttempt, ToyRecoverer
from tests.support.toy_store import Flaw, Put

PUTS = (Put(1), Put(2, 2), Put(1, 0, True), Put(3, 1))


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Toy]:
    with Toy.record(tmp_path / "log", PUTS, Flaw.COMMIT_FIRST) as toy:
        yield toy


class WatchedRecoverer(ToyRecoverer):
    """Knows whether it was ended; can block, fail, or both."""

    def __init__(self, toy: Toy) -> None:
        super().__init__(toy.images)
        self.ended = False
        self.hangs = False
        self.error: Exception | None = None
        self.hanging = threading.Event()
        self.aborted = threading.Event()

    @contextmanager
    def recover(self, state: CrashState) -> Iterator[ToyAttempt]:
        if self.error is not None:
            raise self.error
        if self.hangs:
            self.hanging.set()
            assert self.aborted.wait(60)
            raise RecovererAborted("stopped")
        with super().recover(state) as attempt:
            yield attempt

    def __exit__(self, *_: object) -> None:
        self.ended = True
        super().__exit__()

    def abort(self) -> None:
        self.aborted.set()


def explore_with(
    toy: Toy,
    recoverers: list[WatchedRecoverer],
    *,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> None:
    decider = toy.decider(frozenset())
    waiting = iter(recoverers)
    engine = LocalEngine(decider, lambda: next(waiting), len(recoverers))
    explore(decider, engine, budget or Budget(states=200), 512, progress)


def test_results_do_not_depend_on_the_number_of_workers(toy: Toy) -> None:
    alone = toy.explore(states=150, jobs=1)
    crowd = toy.explore(states=150, jobs=3)
    assert list(alone.verdicts.items()) == list(crowd.verdicts.items())
    assert alone.failures == crowd.failures
    assert alone.failures
    assert alone.properties == crowd.properties
    assert alone.coverage == crowd.coverage
    assert alone.distinct == crowd.distinct


def test_the_sums_add_up(toy: Toy) -> None:
    exploration = toy.explore(states=150)
    assert exploration.explored == 150
    assert sum(exploration.decided_by.values()) == 150
    assert all(exploration.decided_by[how] for how in (DecidedBy.CHECK, *PRUNINGS))
    assert len({toy.images.identity(state) for state in exploration.verdicts}) == (
        exploration.distinct
    )
    for name in (Property.INTACT, Property.DURABLE):
        broken = [
            state
            for state, violations in exploration.verdicts.items()
            if any(violation.property is name for violation in violations)
        ]
        assert exploration.properties[name] == (150, len(broken))
    assert {"lookup", "recover", "judge", "explore"} <= set(exploration.seconds)
    assert not exploration.time_over


def test_where_nothing_is_recovered_only_recoverable_was_checked(tmp_path: Path) -> None:
    with Toy.record(tmp_path / "log", PUTS, Flaw.ONE_SUPERBLOCK) as toy:
        exploration = toy.explore(states=150)
    explored = exploration.explored
    checked, broken = exploration.properties[Property.RECOVERABLE]
    assert (checked, broken > 0) == (explored, True)
    assert exploration.properties[Property.INTACT] == (explored - broken, 0)


def test_progress_counts_up_to_the_budget(toy: Toy) -> None:
    seen: list[tuple[int, int, int]] = []
    explore_with(toy, [WatchedRecoverer(toy)], progress=lambda *counts: seen.append(counts))
    decided = [counts[0] for counts in seen]
    assert decided == list(range(1, len(seen) + 1))
    assert {counts[1] for counts in seen} == {200}
    assert seen[-1][2] == 1


def test_an_infrastructure_failure_of_one_worker_ends_all(toy: Toy) -> None:
    hanging, failing = WatchedRecoverer(toy), WatchedRecoverer(toy)
    hanging.hangs = True
    failing.error = InfrastructureError("no machine")
    with pytest.raises(InfrastructureError, match="no machine"):
        explore_with(toy, [hanging, failing])
    assert hanging.ended
    assert failing.ended


def test_an_interrupt_ends_a_worker_that_hangs(toy: Toy) -> None:
    hanging, working = WatchedRecoverer(toy), WatchedRecoverer(toy)
    hanging.hangs = True

    def interrupt(*_: int) -> None:
        assert hanging.hanging.wait(60)
        raise KeyboardInterrupt

    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        explore_with(toy, [hanging, working], progress=interrupt)
    assert hanging.ended
    assert working.ended
    assert threading.active_count() == before


def test_the_time_limit_ends_a_worker_that_hangs(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("crashsim.explore.engine.GRACE_SECONDS", 0.0)
    recoverer = WatchedRecoverer(toy)
    recoverer.hangs = True
    decider = toy.decider(frozenset())
    engine = LocalEngine(decider, lambda: recoverer)
    exploration = explore(decider, engine, Budget(time_limit_seconds=0.01), 512)
    assert exploration.time_over
    assert exploration.explored == 0
    assert recoverer.ended


def test_what_was_decided_within_the_time_limit_counts(toy: Toy) -> None:
    decider = toy.decider(frozenset())
    engine = LocalEngine(decider, lambda: ToyRecoverer(toy.images))
    stop_after = 5

    def limited(states: Iterator[CrashState]) -> Iterator[CrashState]:
        """As the time limit does, between two states."""
        yield from (state for _, state in zip(range(stop_after), states, strict=False))

    decided = list(engine.decide_all(limited(iter(toy.explore(states=20).verdicts)), None))
    assert [place for place, _, _ in decided] == list(range(stop_after))

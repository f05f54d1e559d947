"""When a repository lives on, when it is given up, and when nobody can say."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from crashsim.campaigns.inspection import CANNOT_GO_ON, Inspection
from crashsim.campaigns.live import Endurance, RepositoryLost
from crashsim.campaigns.lives import Life
from crashsim.campaigns.options import RunOptions
from crashsim.machines.failures import Cause, GuestDied
from crashsim.machines.protocol import CommandResult
from crashsim.oracles.protocol import Property, Violation
from crashsim.workloads.protocol import WorkloadFailed

LOSS = Violation(Property.DURABLE, "ref-lost", "refs/heads/main", "gone")
PANIC = Violation(Property.RECOVERABLE, "kernel-panic", "", "panicked")
FAILURE = WorkloadFailed("git", "commit-2", CommandResult(1, b"", b"no", 0.1))
DEATH = GuestDied(Cause.GONE, "recover")

Behaviour = Callable[[Inspection], None]
"""What happens while a life recovers from the one before; it may raise."""


class ScriptedEndurance(Endurance):
    """Lives without guests: `behave` says what each life meets at its beginning."""

    def __init__(
        self, directory: Path, behave: dict[int, Behaviour], limit_seconds: float | None = None
    ) -> None:
        nothing = cast(Any, None)
        options = cast(RunOptions, SimpleNamespace(time_limit_seconds=limit_seconds))
        super().__init__(nothing, options, nothing, directory, lambda *_: None)
        self.behave = behave
        self.decided: tuple[Violation, ...] = ()
        self.settled: list[tuple[int, tuple[Violation, ...] | None]] = []
        self.fresh: list[int] = []
        self.closed: list[int] = []

    def _live(self, number: int, last: Life | None, inspection: Inspection) -> Life:
        if last is None:
            self.fresh.append(number)
        else:
            self.behave.get(number, _nothing)(inspection)
        directory = self.directory / "lives" / str(number)
        directory.mkdir(parents=True, exist_ok=True)
        life = SimpleNamespace(
            number=number, directory=directory, close=lambda: self.closed.append(number)
        )
        return cast(Life, life)

    def _decide(self, last: Life, inspection: Inspection) -> None:
        inspection.violations = self.decided

    def _inspect_last(self, last: Life) -> None:
        self._settle(last, Inspection(()))

    def _settle(self, life: Life, inspection: Inspection) -> None:
        self.settled.append((life.number, inspection.violations))


def _nothing(inspection: Inspection) -> None:
    inspection.violations = ()


def raising(error: Exception, *violations: Violation) -> Behaviour:
    def behave(inspection: Inspection) -> None:
        if violations or not isinstance(error, GuestDied):
            inspection.violations = violations
        raise error

    return behave


def test_every_life_is_settled_once_and_only_the_last_recording_is_kept(tmp_path: Path) -> None:
    lives = ScriptedEndurance(tmp_path, {})
    lives.run(4)

    assert lives.settled == [(1, ()), (2, ()), (3, ()), (4, ())]
    assert lives.fresh == [1]
    assert lives.repositories == 1
    assert lives.closed == [1, 2, 3, 4]
    assert [path.name for path in (tmp_path / "lives").iterdir()] == ["4"]


def test_a_life_that_has_begun_is_settled_when_the_time_is_over(tmp_path: Path) -> None:
    lives = ScriptedEndurance(tmp_path, {}, limit_seconds=0)
    lives.run(1000)

    assert lives.settled == [(1, ())]


def test_a_repository_that_is_lost_is_replaced_and_the_lives_go_on(tmp_path: Path) -> None:
    lives = ScriptedEndurance(tmp_path, {3: raising(RepositoryLost("damaged"), LOSS)})
    lives.run(4)

    assert lives.settled == [(1, ()), (2, (LOSS,)), (3, ()), (4, ())]
    assert lives.fresh == [1, 3]
    assert lives.repositories == 2


def test_a_step_that_fails_in_a_whole_repository_is_a_violation(tmp_path: Path) -> None:
    lives = ScriptedEndurance(tmp_path, {2: raising(FAILURE)})
    lives.run(3)

    number, violations = lives.settled[0]
    assert number == 1
    assert violations is not None
    assert [(each.property, each.rule) for each in violations] == [(Property.USABLE, CANNOT_GO_ON)]
    assert lives.repositories == 2


def test_a_guest_that_dies_of_the_disk_is_the_disks_fault(tmp_path: Path) -> None:
    lives = ScriptedEndurance(tmp_path, {2: raising(DEATH)})
    lives.decided = (PANIC,)
    lives.run(2)

    assert lives.settled[0] == (1, (PANIC,))
    assert lives.repositories == 2


@pytest.mark.parametrize("violations", [(), (LOSS,)])
def test_a_guest_that_dies_of_something_else_is_replaced_once(
    tmp_path: Path, violations: tuple[Violation, ...]
) -> None:
    deaths = [DEATH]

    def behave(inspection: Inspection) -> None:
        if deaths:
            raising(deaths.pop(), *violations)(inspection)
        inspection.violations = violations

    lives = ScriptedEndurance(tmp_path, {3: behave})
    lives.run(3)

    assert lives.settled == [(1, ()), (2, violations), (3, ())]
    assert lives.repositories == 1


@pytest.mark.parametrize("violations", [(), (LOSS,)])
def test_guests_that_go_on_dying_are_no_verdict(
    tmp_path: Path, violations: tuple[Violation, ...]
) -> None:
    lives = ScriptedEndurance(tmp_path, {3: raising(DEATH, *violations)})
    with pytest.raises(GuestDied):
        lives.run(5)

    assert lives.settled == [(1, ())]
    assert lives.closed == [1, 2]
    assert (tmp_path / "lives" / "2").is_dir()

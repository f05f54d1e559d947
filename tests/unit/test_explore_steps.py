"""Shrinking over the steps of a workload, recorded anew each time."""

from collections.abc import Sequence
from pathlib import Path

from crashsim.explore.exploration import Failure
from crashsim.explore.minimize import ShrinkBudget
from crashsim.explore.steps import shrink_steps
from crashsim.oracles.protocol import Property
from tests.support.toy_exploring import Toy
from tests.support.toy_store import Flaw, Put

SUPERBLOCK_LOST = (Property.RECOVERABLE, "does-not-mount")


class Recorder:
    """Records puts with a flaw and looks for an unmountable store."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.tried: list[tuple[Put, ...]] = []

    def __call__(self, puts: Sequence[Put]) -> Failure | None:
        self.tried.append(tuple(puts))
        log = self.directory / f"log-{len(self.tried)}"
        with Toy.record(log, puts, Flaw.ONE_SUPERBLOCK) as toy:
            failures = toy.explore().failures
        return next((failure for failure in failures if failure.kind == SUPERBLOCK_LOST), None)


PUTS = [Put(0, 1), Put(1), Put(2), Put(3, 2), Put(4), Put(5), Put(6)]


def test_steps_that_the_failure_does_not_need_are_left_out(tmp_path: Path) -> None:
    """The superblock is rewritten in place after every third put, whichever they are."""
    recorder = Recorder(tmp_path)
    shrunk = shrink_steps(PUTS, 5, recorder, ShrinkBudget())
    assert shrunk.minimal
    assert len(shrunk.steps) == 3
    assert shrunk.steps[-1] == PUTS[5]
    assert shrunk.found is not None
    assert shrunk.found.kind == SUPERBLOCK_LOST
    assert shrunk.attempts == len(recorder.tried)
    assert recorder.tried[0] == tuple(PUTS[:6]), "what follows the failing step goes first"


def test_a_spent_budget_keeps_what_was_found(tmp_path: Path) -> None:
    shrunk = shrink_steps(PUTS, 5, Recorder(tmp_path), ShrinkBudget(checks=1))
    assert not shrunk.minimal
    assert shrunk.steps == tuple(PUTS[:6])
    assert shrunk.found is not None


def test_a_failure_that_does_not_come_again_keeps_all_steps(tmp_path: Path) -> None:
    shrunk = shrink_steps(PUTS[:2], 0, Recorder(tmp_path), ShrinkBudget())
    assert not shrunk.minimal
    assert shrunk.steps == tuple(PUTS[:2])
    assert shrunk.found is None

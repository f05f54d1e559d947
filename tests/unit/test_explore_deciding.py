"""Deciding when guests die or checks give no answer."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from crashsim.disk.state import CrashState
from crashsim.errors import InfrastructureError
from crashsim.explore.recovery import GuestLost
from crashsim.explore.verdict import DecidedBy
from crashsim.machines.protocol import Guest
from crashsim.machines.tree import Tree
from crashsim.oracles.protocol import Blame, Inconclusive, Moment, Property, Violation
from tests.support.toy_exploring import Toy, ToyAttempt, ToyOracle, ToyRecoverer
from tests.support.toy_store import Put

PUTS = (Put(1), Put(2), Put(3), Put(4))


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Toy]:
    with Toy.record(tmp_path / "log", PUTS) as toy:
        yield toy


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """For recoverers, which are to be left at the test's end."""
    with ExitStack() as stack:
        yield stack


class MortalRecoverer(ToyRecoverer):
    """Loses its guest on one state (or on any), once for each of `panicked`."""

    def __init__(self, toy: Toy, deadly: CrashState | None, *panicked: bool) -> None:
        super().__init__(toy.images)
        self.deadly = deadly
        self.panicked = list(panicked)

    @contextmanager
    def recover(self, state: CrashState) -> Iterator[ToyAttempt]:
        if self.deadly in (state, None) and self.panicked:
            raise GuestLost("the guest died", panicked=self.panicked.pop())
        with super().recover(state) as attempt:
            yield attempt


def middle(toy: Toy) -> CrashState:
    return CrashState((toy.timeline.start + toy.timeline.end) // 2)


def test_a_guest_that_dies_once_is_replaced_and_says_nothing(toy: Toy, stack: ExitStack) -> None:
    recoverer = stack.enter_context(MortalRecoverer(toy, middle(toy), True))
    verdict = toy.decider().decide(middle(toy), recoverer)
    assert verdict.clean
    assert recoverer.recoveries == 1


def test_a_kernel_that_panics_twice_on_one_disk_is_the_filesystems_fault(
    toy: Toy, stack: ExitStack
) -> None:
    recoverer = stack.enter_context(MortalRecoverer(toy, middle(toy), True, True))
    (violation,) = toy.decider().decide(middle(toy), recoverer).violations
    assert violation.property is Property.RECOVERABLE
    assert violation.rule == "kernel-panic"
    assert violation.blame is Blame.FILESYSTEM
    assert recoverer.recoveries == 1, "a sound disk was recovered before that was claimed"


@pytest.mark.parametrize("panicked", [(False, False), (True, False), (False, True)])
def test_a_guest_that_is_lost_twice_without_a_word_of_its_kernel_is_no_verdict(
    toy: Toy, stack: ExitStack, panicked: tuple[bool, bool]
) -> None:
    recoverer = stack.enter_context(MortalRecoverer(toy, middle(toy), *panicked))
    decider = toy.decider()
    verdict = decider.decide(middle(toy), recoverer)
    assert not verdict.violations
    assert not verdict.clean
    assert "lost twice" in verdict.inconclusive
    assert decider.decide(middle(toy), recoverer).clean, "and nothing was learnt from it"


@pytest.mark.parametrize("panicked", [True, False])
def test_guests_that_die_on_a_sound_disk_are_an_infrastructure_failure(
    toy: Toy, panicked: bool, stack: ExitStack
) -> None:
    recoverer = stack.enter_context(MortalRecoverer(toy, None, panicked, panicked, panicked))
    with pytest.raises(InfrastructureError, match="do not even survive"):
        toy.decider().decide(middle(toy), recoverer)


class UnsureOracle(ToyOracle):
    """Its exercise never answers; `found` is what the tree alone tells."""

    found: tuple[Violation, ...] = ()
    exercises = 0

    def judge(self, tree: Tree, moment: Moment) -> list[Violation]:
        return list(self.found)

    def exercise_key(self, tree: Tree, moment: Moment) -> object | None:
        return "always the same"

    def exercise(self, guest: Guest, root: str, tree: Tree, moment: Moment) -> list[Violation]:
        self.exercises += 1
        raise Inconclusive("it hung")


def test_an_inconclusive_check_is_neither_clean_nor_a_violation(toy: Toy) -> None:
    oracle = UnsureOracle()
    exploration = toy.explore(states=40, oracle=oracle)
    assert not exploration.verdicts
    assert len(exploration.inconclusive) == exploration.explored == 40
    assert set(exploration.inconclusive.values()) == {"it hung"}
    assert oracle.exercises == 1, "what hung once is not tried again under the same key"
    assert exploration.properties[Property.INTACT] == (0, 0)


class BaffledOracle(ToyOracle):
    """Cannot judge a tree that has more than two files."""

    def judge(self, tree: Tree, moment: Moment) -> list[Violation]:
        if len(tree.nodes) > 2:
            raise Inconclusive("too many files")
        return super().judge(tree, moment)


def test_an_oracle_that_cannot_judge_a_tree_is_inconclusive_on_it(toy: Toy) -> None:
    exploration = toy.explore(oracle=BaffledOracle())
    assert exploration.verdicts
    assert set(exploration.inconclusive.values()) == {"too many files"}
    assert not set(exploration.verdicts) & set(exploration.inconclusive)


def test_a_violation_stands_where_the_check_broke_down_later(toy: Toy) -> None:
    oracle = UnsureOracle()
    oracle.found = (Violation(Property.INTACT, "broken", "file", "it is broken"),)
    exploration = toy.explore(states=40, oracle=oracle)
    assert len(exploration.verdicts) == len(exploration.inconclusive) == exploration.explored
    assert exploration.failures[0].states == 40


def test_without_prunings_every_state_is_exercised(toy: Toy) -> None:
    oracle = UnsureOracle()
    exploration = toy.explore(states=40, oracle=oracle, prunings=frozenset())
    assert oracle.exercises == 40
    assert exploration.decided_by == {DecidedBy.CHECK: 40}


def test_new_promises_on_a_known_image_are_judged_without_a_guest(
    toy: Toy, stack: ExitStack
) -> None:
    decider = toy.decider(frozenset({DecidedBy.SAME_IMAGE}))
    recoverer = stack.enter_context(ToyRecoverer(toy.images))
    position = int(toy.timeline.promise_positions[1])
    before, after = CrashState(position), CrashState(position + 1)
    assert decider.decide(before, recoverer).decided_by is DecidedBy.CHECK
    assert decider.decide(after, recoverer).decided_by is DecidedBy.SAME_IMAGE
    assert decider.moment(after).promises == ("1=0", "2=1")
    assert recoverer.recoveries == 1


def test_a_known_tree_is_judged_anew_under_new_promises(toy: Toy, stack: ExitStack) -> None:
    decider = toy.decider(frozenset({DecidedBy.SAME_TREE}))
    recoverer = stack.enter_context(ToyRecoverer(toy.images))
    position = int(toy.timeline.promise_positions[1])
    before, after = CrashState(position), CrashState(position + 1)
    decided_by = [decider.decide(state, recoverer).decided_by for state in (before, after, before)]
    assert decided_by == [DecidedBy.CHECK, DecidedBy.CHECK, DecidedBy.SAME_TREE]
    assert recoverer.recoveries == 3

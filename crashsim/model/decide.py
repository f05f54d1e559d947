"""Decide a log: look at its crash states, and see whether any of them breaks a property."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from crashsim.model.states import CrashState, CrashStates
from crashsim.model.tree import Tree

Check: TypeAlias = Callable[[Tree, tuple[object, ...]], str | None]
"""Given a recovered filesystem and the promises made: what is broken, or None."""


class Remembered:
    """A check that is not asked twice about equal trees and promises, however often they come up.

    Promises have to be hashable, and the check a function of paths, kinds, permission bits and
    contents alone (not of times, inode numbers or link counts).
    """

    def __init__(self, check: Check) -> None:
        """Remember the answers of `check`."""
        self._check = check
        self._answers: dict[tuple[int, tuple[object, ...]], str | None] = {}

    def __call__(self, state: CrashState) -> str | None:
        """What is broken in this state, or None."""
        key = (state.digest, state.promises)
        if key not in self._answers:
            self._answers[key] = self._check(state.tree, state.promises)
        return self._answers[key]

    @property
    def checked(self) -> int:
        """How many different trees the check has seen."""
        return len(self._answers)


@dataclass(frozen=True, slots=True)
class Failure:
    """A crash state that breaks a property, and what it breaks."""

    state: CrashState
    problem: str


@dataclass(frozen=True, slots=True)
class Decision:
    """What came of it; the counts are those of `CrashStates`.

    :ivar failures: in the order in which they were found.
    """

    possible: int
    explored: int
    distinct: int
    failures: tuple[Failure, ...]

    @property
    def simplest(self) -> Failure | None:
        """The failure that takes the fewest losses; of those, the earliest cut."""
        return min(self.failures, key=_simplicity, default=None)


def decide(
    states: CrashStates, check: Remembered, *, failures_limit: int | None = None
) -> Decision:
    """Check every state that `states` gives, or until `failures_limit` of them have failed."""
    failures = tuple(islice(_failures(states, check), failures_limit))
    return Decision(states.possible, states.explored, states.distinct, failures)


def _failures(states: Iterable[CrashState], check: Remembered) -> Iterable[Failure]:
    for state in states:
        problem = check(state)
        if problem is not None:
            yield Failure(state, problem)


def _simplicity(failure: Failure) -> tuple[int, int, tuple[int, ...]]:
    lost = failure.state.lost
    return len(lost), failure.state.cut, tuple(each.number for each in lost)

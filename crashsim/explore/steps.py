"""Shrinking the workload itself: which of its steps does a failure need?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from crashsim.explore.minimize import BudgetSpent, ShrinkBudget, minimize

Step = TypeVar("Step")
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class ShrunkSteps(Generic[Step, Found]):
    """The fewest steps that were found to fail.

    :ivar found: what the last successful attempt gave; None where no attempt succeeded.
    :ivar attempts: how many recordings that took.
    :ivar minimal: no single step can be left out; False where the budget was spent before.
    """

    steps: tuple[Step, ...]
    found: Found | None
    attempts: int
    minimal: bool


def shrink_steps(
    steps: Sequence[Step],
    failing: int,
    attempt: Callable[[Sequence[Step]], Found | None],
    budget: ShrinkBudget,
) -> ShrunkSteps[Step, Found]:
    """Leave out steps that the failure does not need.

    :param failing: index of the step that fails; it stays, and what comes after it is left out
        first.
    :param attempt: records the given steps anew and explores the recording for the same kind of
        violation; what it found, or None. A step that cannot run without one that was left out is
        no failure of this kind: None, too.
    :param budget: counts attempts as checks.
    """
    best: tuple[tuple[Step, ...], Found | None] = tuple(steps), None
    minimal = True

    def fails(before: Sequence[Step]) -> bool:
        nonlocal best
        budget.require()
        budget.spent += 1
        tried = (*before, steps[failing])
        found = attempt(tried)
        if found is not None:
            best = tried, found
        return found is not None

    try:
        if len(steps) == failing + 1 or fails(steps[:failing]):
            minimize(steps[:failing], fails)
        else:
            minimal = False
    except BudgetSpent:
        minimal = False
    return ShrunkSteps(best[0], best[1], budget.spent, minimal)

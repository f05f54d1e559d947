"""From a failure of an exploration to the form in which people get to see it."""

import time
from dataclasses import dataclass

from crashsim.disk.state import CrashState
from crashsim.explore.cuts import Cuts
from crashsim.explore.exploration import Failure
from crashsim.explore.minimize import ShrinkBudget
from crashsim.explore.needed import tell
from crashsim.explore.shrink import Decide, Progress, Trials, shrink
from crashsim.explore.timeline import Timeline
from crashsim.oracles.protocol import Violation

TELLING_SHARE = 4
"""The telling form may cost a quarter of what shrinking may, on top of it."""


@dataclass(frozen=True, slots=True)
class Reduced:
    """A failure, shrunk and told.

    :ivar state: a legal crash state that fails in the same way (property and rule).
    :ivar violation: how it fails.
    :ivar needed: lost writes of `state` of which each, restored alone, makes the violation go away.
    :ivar clean: with any of them restored nothing else is wrong, either.
    :ivar minimal: False where the budget ended the shrinking.
    :ivar checks: recoveries that all this took.
    """

    state: CrashState
    violation: Violation
    needed: tuple[int, ...]
    clean: bool
    minimal: bool
    checks: int
    seconds: float


def reduce(
    failure: Failure,
    timeline: Timeline,
    cuts: Cuts,
    decide: Decide,
    budget: ShrinkBudget | None = None,
    progress: Progress | None = None,
) -> Reduced:
    """Shrink a failure and find the losses that it hangs on.

    :param decide: gives a legal state its verdict, always the same one; it must find the failure's
        violation at the failure's state.
    :param budget: what shrinking may cost; the telling form is looked for beyond that.
    """
    started = time.perf_counter()
    budget = budget or ShrinkBudget()
    trials = Trials(
        decide, timeline, failure.kind, failure.state, failure.violation, budget, progress
    )
    minimal = shrink(trials, cuts)
    trials.budget = ShrinkBudget(-(-budget.checks // TELLING_SHARE), budget.seconds / TELLING_SHARE)
    telling = tell(trials)
    return Reduced(
        telling.state,
        trials.violation_of(telling.state) or trials.violation,
        telling.needed,
        telling.clean,
        minimal,
        budget.spent + trials.budget.spent,
        time.perf_counter() - started,
    )

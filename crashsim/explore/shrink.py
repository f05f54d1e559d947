"""From a crash state that fails to the simplest one that fails in the same way.

What simpler means is `exploration.simplicity`. What has to stay is the kind of the violation,
(property, rule). Each accepted step makes the state simpler, so shrinking ends; and every question
is answered from the prunings where possible, so most of a shrink costs no recovery.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from crashsim.disk.state import CrashState, TornWrite
from crashsim.explore.cuts import Cuts
from crashsim.explore.exploration import Kind, kind_of, simplicity
from crashsim.explore.minimize import BudgetSpent, ShrinkBudget, boundary, minimize
from crashsim.explore.timeline import Timeline
from crashsim.explore.verdict import DecidedBy, Verdict
from crashsim.oracles.protocol import Violation

Decide = Callable[[CrashState], Verdict]
Progress = Callable[[int, int], None]
"""Called as progress(checks spent, checks allowed)."""

Loss = int | TornWrite
"""A dropped write's number, or a torn write."""


@dataclass(eq=False)
class Trials:
    """Asks whether states fail in the way that is looked for, and remembers the answers.

    :ivar best: the simplest failing state so far.
    :ivar violation: how it fails.
    :ivar explored: states whose verdicts are known and cost nothing to ask for: bisection starts
        from those.
    """

    decide: Decide
    timeline: Timeline
    kind: Kind
    best: CrashState
    violation: Violation
    budget: ShrinkBudget
    progress: Progress | None = None
    explored: Collection[CrashState] = ()
    _verdicts: dict[CrashState, Verdict] = field(default_factory=dict)

    def verdict(self, state: CrashState) -> Verdict:
        """The verdict on a legal state. Raises BudgetSpent if that needs a check too many."""
        known = self._verdicts.get(state)
        if known is None:
            self.budget.require()
            known = self._verdicts[state] = self.decide(state)
            if known.decided_by in (DecidedBy.CHECK, DecidedBy.SAME_TREE):
                self.budget.spent += 1
            if self.progress is not None:
                self.progress(self.budget.spent, self.budget.checks)
        return known

    def violation_of(self, state: CrashState) -> Violation | None:
        """The violation of the kind that is looked for, if the state shows one."""
        violations = self.verdict(state).violations
        return next((found for found in violations if kind_of(found) == self.kind), None)

    def fails(self, state: CrashState) -> bool:
        """Whether the state fails in the way that is looked for."""
        return self.violation_of(state) is not None

    def accept(self, state: CrashState) -> bool:
        """Make the state the best one, if it is simpler and fails, too."""
        state = self.timeline.canonical(state)
        if simplicity(state) >= simplicity(self.best):
            return False
        violation = self.violation_of(state)
        if violation is None:
            return False
        self.best, self.violation = state, violation
        return True


def shrink(trials: Trials, cuts: Cuts) -> bool:
    """Shrink `trials.best` over cut × dropped writes × torn writes.

    Returns whether it came to its end: nothing simpler in reach fails. False where the budget was
    spent before; `trials.best` is the simplest failing state either way.
    """
    try:
        while _pass_over(trials, cuts):
            pass
    except BudgetSpent:
        return False
    return True


def _pass_over(trials: Trials, cuts: Cuts) -> bool:
    """One round of all reductions; whether any of them made the state simpler."""
    before = trials.best
    trials.accept(trials.timeline.canonical(before))
    trials.accept(CrashState(trials.best.cut))
    _mend(trials)
    _fewer_losses(trials)
    _earlier_cut(trials, cuts)
    _plainer_tears(trials)
    return trials.best != before


def _losses(state: CrashState) -> list[Loss]:
    return [*sorted(state.torn), *sorted(state.dropped)]


def _with_losses(cut: int, losses: Iterable[Loss]) -> CrashState:
    losses = list(losses)
    return CrashState(
        cut,
        frozenset(loss for loss in losses if isinstance(loss, int)),
        frozenset(loss for loss in losses if isinstance(loss, TornWrite)),
    )


def _mend(trials: Trials) -> None:
    """Keep each torn write, or else drop it."""
    for tear in sorted(trials.best.torn):
        state = trials.best
        mended = CrashState(state.cut, state.dropped, state.torn - {tear})
        if not trials.accept(mended):
            trials.accept(CrashState(state.cut, state.dropped | {tear.write}, mended.torn))


def _fewer_losses(trials: Trials) -> None:
    cut = trials.best.cut

    def fails(losses: Iterable[Loss]) -> bool:
        state = _with_losses(cut, losses)
        return trials.accept(state) or trials.fails(state)

    minimize(_losses(trials.best), fails)


def _earlier_cut(trials: Trials, cuts: Cuts) -> None:
    """Bisect for a cut that fails, just after one that does not."""
    state = trials.best
    earlier = cuts.positions[: int(np.searchsorted(cuts.positions, state.cut))].tolist()

    def at(cut: int) -> CrashState:
        return restricted(trials.timeline, state, cut)

    known = {tried.cut for tried in trials.explored if tried.cut < state.cut}
    hints = [
        place for place, cut in enumerate(earlier) if cut in known and at(cut) in trials.explored
    ]
    boundary(-1, len(earlier), lambda place: trials.accept(at(earlier[place])), hints)


def restricted(timeline: Timeline, state: CrashState, cut: int) -> CrashState:
    """The state at an earlier cut, without the losses of writes that were submitted after it."""

    def submitted(write: int) -> bool:
        return int(timeline.submitted_at[timeline.row(write)]) < cut

    return CrashState(
        cut,
        frozenset(write for write in state.dropped if submitted(write)),
        frozenset(tear for tear in state.torn if submitted(tear.write)),
    )


def _plainer_tears(trials: Trials) -> None:
    """Tear each write that has to be torn after its first unit, if that fails as well."""
    for tear in sorted(trials.best.torn):
        state = trials.best
        plain = TornWrite(tear.write, (0,))
        tried = CrashState(state.cut, state.dropped, state.torn - {tear} | {plain})
        violation = None if tear == plain else trials.violation_of(tried)
        if violation is not None:
            trials.best, trials.violation = tried, violation

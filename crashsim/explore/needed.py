"""The most telling form of a failure: one in which the loss of a write makes the difference.

"The power went after event 4711" names no culprit. If some later write mends it, then the same
disk image can also be told as "everything up to this write reached the disk except this one":
a legal crash state, since a write that was just submitted is not durable, and restoring that one
write makes the violation go away. Both halves are verified before anything is claimed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from crashsim.disk.state import CrashState
from crashsim.explore.minimize import BudgetSpent, ShrinkBudget, boundary
from crashsim.explore.shrink import Trials

TELLING_SHARE = 4
"""Telling may cost a quarter of what shrinking may, on top of it."""


@dataclass(frozen=True, slots=True)
class Telling:
    """A failing state and the losses that it hangs on.

    :ivar needed: dropped or torn writes of which each, restored alone, makes the violation go
        away, ascending. Empty where no single write does.
    :ivar clean: restoring any of them leaves no violation of another kind, either.
    """

    state: CrashState
    needed: tuple[int, ...]
    clean: bool


def tell(trials: Trials, budget: ShrinkBudget | None = None) -> Telling:
    """The telling form of `trials.best`, which should have been shrunk before.

    `trials.best` and `trials.violation` are that form and its violation afterwards. It has a budget
    of its own, by default a share of what `trials` had; where that ends first, the result is what
    was verified until then.
    """
    trials.budget = budget or ShrinkBudget(
        -(-trials.budget.checks // TELLING_SHARE), trials.budget.seconds / TELLING_SHARE
    )
    needed: list[int] = []
    clean = True
    try:
        _name_culprit(trials)
        for write, restored in restorations(trials.best):
            if not trials.fails(restored):
                needed.append(write)
                clean = clean and trials.verdict(restored).clean
    except BudgetSpent:
        clean = False
    return Telling(trials.best, tuple(sorted(needed)), clean and bool(needed))


def restorations(state: CrashState) -> list[tuple[int, CrashState]]:
    """For each lost write: its number and the state in which it alone is restored."""
    return [
        (write, CrashState(state.cut, state.dropped - {write}, state.torn))
        for write in sorted(state.dropped)
    ] + [
        (tear.write, CrashState(state.cut, state.dropped, state.torn - {tear}))
        for tear in sorted(state.torn)
    ]


def _name_culprit(trials: Trials) -> None:
    """For a prefix that fails: a later prefix that fails for want of its last write alone.

    Looks for one that is clean with that write first, and is content with one in which only this
    kind of violation goes away.
    """
    if trials.best.dropped or trials.best.torn:
        return
    state = _boundary(trials, want_clean=True) or _boundary(trials, want_clean=False)
    violation = None if state is None else trials.violation_of(state)
    if state is not None and violation is not None:
        trials.best, trials.violation = state, violation


def _boundary(trials: Trials, *, want_clean: bool) -> CrashState | None:
    timeline = trials.timeline

    def whole(row: int) -> CrashState:
        return CrashState(int(timeline.submitted_at[row]) + 1)

    def mends(row: int) -> bool:
        verdict = trials.verdict(whole(row))
        return verdict.clean if want_clean else not trials.fails(whole(row))

    first = int(np.searchsorted(timeline.submitted_at, trials.best.cut))
    hints = [row for row in range(first, len(timeline.writes)) if whole(row) in trials.explored]
    found = _around_a_boundary(first - 1, len(timeline.writes) - 1, mends, hints)
    if found is None:
        return None
    mending = boundary(*found, mends, hints)
    state = whole(mending)
    lost = CrashState(state.cut, frozenset({int(timeline.writes[mending])}))
    return lost if trials.fails(lost) else None


def _around_a_boundary(
    failing: int, last: int, mends: Callable[[int], bool], hints: Sequence[int]
) -> tuple[int, int] | None:
    """A row that fails and a later one that mends: by the hints, then ever further from them."""
    for row in hints:
        if mends(row):
            return failing, row
        failing = row
    step = 1
    while failing < last:
        row = min(failing + step, last)
        if mends(row):
            return failing, row
        failing, step = row, 2 * step
    return None

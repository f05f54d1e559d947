"""The most telling form of a failure: one in which the loss of a write makes the difference.

"The power went after event 4711" names no culprit. If some later write mends it, then the same
disk image can also be told as "everything up to this write reached the disk except this one":
a legal crash state, since a write that was just submitted is not durable, and restoring that one
write makes the violation go away. Both halves are verified before anything is claimed.
"""

from dataclasses import dataclass

import numpy as np

from crashsim.disk.state import CrashState
from crashsim.explore.minimize import BudgetSpent
from crashsim.explore.shrink import Trials


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


def tell(trials: Trials) -> Telling:
    """The telling form of `trials.best`, which should have been shrunk before.

    Where the budget ends first, what was verified until then.
    """
    state = trials.best
    try:
        if not state.dropped and not state.torn:
            state = _with_culprit(trials) or state
    except BudgetSpent:
        pass
    needed: list[int] = []
    clean = True
    try:
        for write, restored in restorations(state):
            if not trials.fails(restored):
                needed.append(write)
                clean = clean and trials.verdict(restored).clean
    except BudgetSpent:
        pass
    return Telling(state, tuple(sorted(needed)), clean and bool(needed))


def restorations(state: CrashState) -> list[tuple[int, CrashState]]:
    """For each lost write: its number and the state in which it alone is restored."""
    return [
        (write, CrashState(state.cut, state.dropped - {write}, state.torn))
        for write in sorted(state.dropped)
    ] + [
        (tear.write, CrashState(state.cut, state.dropped, state.torn - {tear}))
        for tear in sorted(state.torn)
    ]


def _with_culprit(trials: Trials) -> CrashState | None:
    """For a prefix that fails: a later prefix that fails for want of its last write alone.

    Looks for one that is clean with that write first, and is content with one in which only this
    kind of violation goes away.
    """
    return _boundary(trials, want_clean=True) or _boundary(trials, want_clean=False)


def _boundary(trials: Trials, *, want_clean: bool) -> CrashState | None:
    timeline = trials.timeline

    def whole(row: int) -> CrashState:
        return CrashState(int(timeline.submitted_at[row]) + 1)

    def mends(row: int) -> bool:
        verdict = trials.verdict(whole(row))
        return verdict.clean if want_clean else not trials.fails(whole(row))

    first = int(np.searchsorted(timeline.submitted_at, trials.best.cut))
    failing, mending = first - 1, first
    step = 1
    while mending < len(timeline.writes) and not mends(mending):
        failing = mending
        mending = failing + step
        step *= 2
    if mending >= len(timeline.writes):
        mending = len(timeline.writes) - 1
        if mending <= failing or not mends(mending):
            return None
    while mending - failing > 1:
        middle = (failing + mending) // 2
        if mends(middle):
            mending = middle
        else:
            failing = middle
    state = whole(mending)
    lost = CrashState(state.cut, frozenset({int(timeline.writes[mending])}))
    return lost if trials.fails(lost) else None

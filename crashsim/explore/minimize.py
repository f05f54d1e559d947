"""Delta debugging and bisection, and the budget that bounds them."""

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

T = TypeVar("T")


class BudgetSpent(Exception):
    """Shrinking has cost what it may cost; what was reached up to here is the result."""


@dataclass(eq=False)
class ShrinkBudget:
    """What shrinking one failure may cost.

    :ivar checks: real recoveries (or recordings); what a pruning answers is free.
    :ivar seconds: wall clock, from the moment that the budget is made.
    """

    checks: int = 300
    seconds: float = 60.0
    spent: int = 0
    _started: float = field(default_factory=time.monotonic)

    @property
    def elapsed_seconds(self) -> float:
        """How long ago it was made."""
        return time.monotonic() - self._started

    def require(self) -> None:
        """Raise BudgetSpent if there is nothing left."""
        if self.spent >= self.checks or self.elapsed_seconds >= self.seconds:
            raise BudgetSpent


def minimize(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """A subsequence of `items` that still fails, of which no single item can be left out.

    The ddmin algorithm of Zeller and Hildebrandt, "Simplifying and isolating failure-inducing
    input" (IEEE TSE 28(2), 2002): leave out halves, then quarters, and so on down to single items.

    :param fails: deterministic; true for `items` itself, which is not asked again.
    """
    rest = list(items)
    if not rest or fails([]):
        return []
    pieces = 2
    while len(rest) > 1:
        pieces = min(pieces, len(rest))
        smaller = _smaller(rest, pieces, fails)
        if smaller is not None:
            rest = smaller
            pieces = max(2, pieces - 1)
        elif pieces == len(rest):
            break
        else:
            pieces *= 2
    return rest


def boundary(low: int, high: int, holds: Callable[[int], bool], hints: Sequence[int] = ()) -> int:
    """A number in (low, high] at which something holds, and does not at the number before.

    Bisects; there may be several such numbers.

    :param low: it does not hold here; not asked again.
    :param high: it holds here; not asked again.
    :param hints: numbers, ascending, that cost nothing to ask about: asked before any other.
    """
    while high - low > 1:
        middle = (low + high) // 2
        between = hints[bisect_right(hints, low) : bisect_left(hints, high)]
        if between:
            middle = min(between, key=lambda hint: abs(hint - middle))
        if holds(middle):
            high = middle
        else:
            low = middle
    return high


def _smaller(items: list[T], pieces: int, fails: Callable[[Sequence[T]], bool]) -> list[T] | None:
    """`items` reduced to one of so many pieces, or without one of them, if that still fails."""
    bounds = [len(items) * index // pieces for index in range(pieces + 1)]
    parts = [(bounds[index], bounds[index + 1]) for index in range(pieces)]
    if pieces < len(items):
        for begin, end in parts:
            if fails(items[begin:end]):
                return items[begin:end]
    for begin, end in parts:
        without = items[:begin] + items[end:]
        if fails(without):
            return without
    return None

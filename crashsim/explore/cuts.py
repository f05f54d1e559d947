"""Where to cut a log: the positions at which a power cut leaves something new."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from crashsim.explore.timeline import Int64s, Timeline

POSSIBLE_LIMIT = 2**53
"""Counts above it do not survive a trip through JSON's doubles, and mean nothing to anyone."""


@dataclass(frozen=True, eq=False)
class Cuts:
    """The meaningful cuts of a log, in order.

    :ivar positions: event positions, ascending: the start, then the position after each write's
        submission and after each promise.
    :ivar peaks: for each, whether some write becomes durable between it and the next one: the
        pending set is as large there as it gets.
    :ivar promised: for each, whether a promise was the last thing before it.
    """

    positions: Int64s
    peaks: NDArray[np.bool_]
    promised: NDArray[np.bool_]

    def __len__(self) -> int:
        """How many cuts there are."""
        return len(self.positions)


def meaningful_cuts(
    timeline: Timeline, prefix_identity: Callable[[int], int] | None = None
) -> Cuts:
    """The cuts of which every other cut is a repetition.

    Between two of them nothing is submitted and nothing promised. A write may become durable, but
    that only takes states away: whatever can be left behind after it could be left behind before.

    :param prefix_identity: the identity of the image of everything before a cut. Where given, a
        cut before a write that does not change the image is merged into the cut after it: its
        states are those of the later cut with that write dropped. Not where some write becomes
        durable in between, since the later cut can then not drop it any more.
    """
    start = timeline.start
    submitted = timeline.submitted_at[timeline.submitted_at >= start] + 1
    promised = timeline.promise_positions[timeline.promise_positions >= start] + 1
    positions = np.unique(np.concatenate(([start], submitted, promised)).astype(np.int64))
    following = np.append(positions[1:], timeline.end)
    peaks = _durable_counts(timeline, following) > _durable_counts(timeline, positions)
    peaks[-1] = True
    cuts = Cuts(positions, peaks, np.isin(positions, promised))
    return cuts if prefix_identity is None else _without_repetitions(cuts, prefix_identity)


def _without_repetitions(cuts: Cuts, prefix_identity: Callable[[int], int]) -> Cuts:
    identities = list(map(prefix_identity, cuts.positions.tolist()))
    same_as_next = [one == other for one, other in pairwise(identities)]
    repeated = np.array([*same_as_next, False]) & ~cuts.peaks
    repeated[:-1] &= ~cuts.promised[1:]
    kept = np.flatnonzero(~repeated)
    return Cuts(cuts.positions[kept], cuts.peaks[kept], cuts.promised[kept])


def possible_states(timeline: Timeline) -> int | None:
    """How many crash states the log allows, torn ones not counted; None if more than 2**53.

    Counts pairs (set of writes that reached the media, promises made before the cut), each once:
    a write dropped at the cut just after it is not counted again beside the cut just before it.
    Two sets that give one image only because of what the writes contain (one write covers another,
    or repeats it) count as two: telling them apart would mean to build every image.
    """
    start = timeline.start
    submitted = timeline.submitted_at[timeline.submitted_at >= start] + 1
    promised = timeline.promise_positions[timeline.promise_positions >= start] + 1
    fresh = np.concatenate(([start], promised)).astype(np.int64)
    # After a submission only the sets that hold the new write are new.
    exponents = np.concatenate(
        (pending_counts(timeline, fresh), pending_counts(timeline, submitted) - 1)
    )
    if int(exponents.max()) > POSSIBLE_LIMIT.bit_length():
        return None
    values, counts = np.unique(exponents, return_counts=True)
    total = sum(
        count << value for value, count in zip(values.tolist(), counts.tolist(), strict=True)
    )
    return total if total <= POSSIBLE_LIMIT else None


def pending_counts(timeline: Timeline, cuts: Int64s) -> Int64s:
    """How many writes are pending at each cut."""
    return np.searchsorted(timeline.submitted_at, cuts) - _durable_counts(timeline, cuts)


def _durable_counts(timeline: Timeline, cuts: Int64s) -> Int64s:
    """How many writes are durable at each cut."""
    return np.searchsorted(np.sort(timeline.durable_from), cuts, side="right")

"""The log as crash states see it: when each write became durable, and what had been promised."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from crashsim.disk.durability import durable_positions
from crashsim.disk.log import NEVER, Log
from crashsim.disk.profile import DeviceProfile
from crashsim.disk.request import PAGE_BYTES, Operation
from crashsim.disk.state import CrashState
from crashsim.workloads.marks import AFTERMATH, START, is_reserved

Int64s = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Timeline:
    """Everything of a log that decides which crash states are legal and different.

    A *write* here is any request that changes the media (WRITE, WRITE_ZEROES, TRIM). All arrays
    have one entry a write, in the order of submission; a write's index in them is its *row*.

    :ivar writes: the requests' numbers in the log.
    :ivar submitted_at: event positions of submission, ascending.
    :ivar durable_from: the first cuts at which the writes are durable, or `NEVER`.
    :ivar offset_bytes: where each write starts on the disk.
    :ivar length_bytes: how much each write covers.
    :ivar tearable: whether the write carries a payload that a power cut can tear.
    :ivar promise_positions: event positions of the marks that are promises, ascending.
    :ivar promises: their texts.
    :ivar start: the first cut to explore.
    :ivar end: the last cut: the number of events in the log, up to its aftermath if it has one.
    """

    writes: Int64s
    submitted_at: Int64s
    durable_from: Int64s
    offset_bytes: Int64s
    length_bytes: Int64s
    tearable: NDArray[np.bool_]
    promise_positions: Int64s
    promises: Sequence[str]
    start: int
    end: int
    _never: Int64s = field(init=False, repr=False)
    _durable_prefix_max: Int64s = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Prepare the search for pending writes."""
        never = self.durable_from == NEVER
        object.__setattr__(self, "_never", np.flatnonzero(never))
        # Writes that never become durable (they failed, or the log ends) are kept apart: one of
        # them would otherwise keep every later window open to the beginning of the log.
        bounded = np.where(never, -1, self.durable_from)
        object.__setattr__(self, "_durable_prefix_max", np.maximum.accumulate(bounded))

    @classmethod
    def of(cls, log: Log, profile: DeviceProfile) -> "Timeline":
        """The timeline of a log on a device, from its start mark on (or its beginning)."""
        requests = log.requests
        writes = np.flatnonzero(requests.changes_media)
        promises = [mark for mark in log.marks if not is_reserved(mark.text)]
        ends = [mark.position for mark in log.marks if mark.text == AFTERMATH]
        starts = [mark.position + 1 for mark in log.marks if mark.text == START]
        return cls(
            writes=writes,
            submitted_at=requests.submitted_at[writes],
            durable_from=durable_positions(log, profile)[writes],
            offset_bytes=requests.offset_bytes[writes],
            length_bytes=requests.length_bytes[writes],
            tearable=requests.operation[writes] == Operation.WRITE,
            promise_positions=np.array([mark.position for mark in promises], np.int64),
            promises=tuple(mark.text for mark in promises),
            start=starts[0] if starts else 0,
            end=ends[0] if ends else log.event_count,
        )

    def pending_rows(self, cut: int) -> Int64s:
        """Rows of the writes submitted before `cut` and not durable at it, ascending.

        Costs the length of the window between the oldest of them and the cut, whatever came before.
        """
        last = int(np.searchsorted(self.submitted_at, cut))
        first = min(int(np.searchsorted(self._durable_prefix_max, cut, side="right")), last)
        window = first + np.flatnonzero(self.durable_from[first:last] > cut)
        older = self._never[: int(np.searchsorted(self._never, first))]
        return np.concatenate((older, window)) if len(older) else window

    def pending(self, cut: int) -> Int64s:
        """Numbers of the requests that may be dropped or torn at `cut`, ascending."""
        return self.writes[self.pending_rows(cut)]

    @cached_property
    def _differing_pages(self) -> NDArray[np.bool_]:
        """For each page up to the last such one: whether some write to it can be lost."""
        rows = (self.submitted_at >= self.start) | (self.durable_from > self.start)
        first = self.offset_bytes[rows] // PAGE_BYTES
        last = (self.offset_bytes[rows] + self.length_bytes[rows] - 1) // PAGE_BYTES
        differing = np.zeros(int(last.max(initial=-1)) + 1, np.bool_)
        for begin, end in zip(first.tolist(), last.tolist(), strict=True):
            differing[begin : end + 1] = True
        return differing

    def pages_that_differ(self, pages: Int64s) -> list[int]:
        """Those of `pages` that do not hold the same in all crash states from `start` on."""
        pages = pages[pages < len(self._differing_pages)]
        differing: list[int] = pages[self._differing_pages[pages]].tolist()
        return differing

    def row(self, write: int) -> int:
        """The row of request `write`. Raises KeyError if it is not a write of this log."""
        row = int(np.searchsorted(self.writes, write))
        if row == len(self.writes) or int(self.writes[row]) != write:
            raise KeyError(write)
        return row

    def is_pending(self, write: int, cut: int) -> bool:
        """Whether `write` was submitted before `cut` and is not durable at it."""
        row = self.row(write)
        return int(self.submitted_at[row]) < cut < int(self.durable_from[row])

    def promise_count(self, cut: int) -> int:
        """How many promises were made before `cut`."""
        return int(np.searchsorted(self.promise_positions, cut))

    def canonical(self, state: CrashState) -> CrashState:
        """The state with the earliest cut that keeps the same writes under the same promises.

        Dropping the write submitted last is the same as cutting before it, unless a promise was
        made in between. Never goes before `start`.
        """
        promise = self.promise_count(state.cut)
        floor = self.start
        if promise:
            floor = max(floor, int(self.promise_positions[promise - 1]) + 1)
        dropped = set(state.dropped)
        row = int(np.searchsorted(self.submitted_at, state.cut)) - 1
        while row >= 0 and int(self.submitted_at[row]) >= floor:
            write = int(self.writes[row])
            if write not in dropped:
                break
            dropped.remove(write)
            row -= 1
        cut = max(floor, int(self.submitted_at[row]) + 1 if row >= 0 else 0)
        return CrashState(cut, frozenset(dropped), state.torn)

"""The log round a crash, as it is drawn: what each write's fate was, and from when it was safe.

A chart holds so many writes that a person can look at them one by one, those nearest to the crash,
and counts for the whole log, so that its size does not grow with the recording's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from crashsim.disk.request import Operation


class Fate(StrEnum):
    """What became of a write in a crash state."""

    DURABLE = "durable"
    KEPT = "kept"
    DROPPED = "dropped"
    TORN = "torn"
    LATE = "late"


class MarkKind(StrEnum):
    """What a mark is."""

    PROMISE = "promise"
    STEP = "step"
    START = "start"
    END = "end"


@dataclass(frozen=True, slots=True)
class ChartWrite:
    """One write (WRITE, WRITE_ZEROES or TRIM).

    :ivar submitted_at: event position.
    :ivar completed_at: event position; None where it was never answered.
    :ivar durable_at: the position of the event that made it durable; None where nothing did.
    :ivar before_crash_ms: from its submission to the cut; negative for writes after it.
    :ivar what: what it belongs to, in words; empty where that is not known.
    :ivar needed: restored alone, it makes the violation go away.
    :ivar kept_units: of a torn write, the units that reached the disk.
    """

    number: int
    operation: Operation
    fua: bool
    offset_bytes: int
    length_bytes: int
    submitted_at: int
    completed_at: int | None
    durable_at: int | None
    error: int
    before_crash_ms: float
    fate: Fate
    what: str = ""
    needed: bool = False
    kept_units: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ChartFlush:
    """One FLUSH; positions as in a ChartWrite."""

    number: int
    submitted_at: int
    completed_at: int | None
    error: int


@dataclass(frozen=True, slots=True)
class ChartMark:
    """One mark; `text` is fit to be shown."""

    position: int
    kind: MarkKind
    text: str


@dataclass(frozen=True)
class Chart:
    """Everything that a picture of a crash needs.

    :ivar cut: the events [0, cut) happened.
    :ivar end: how many events the log has.
    :ivar focus: the window of event positions to look at first: the last flush epochs.
    :ivar overview_step: events a column of the overview.
    :ivar overview: fate -> writes submitted in each column, over the whole log.
    """

    cut: int
    end: int
    focus: tuple[int, int]
    writes: tuple[ChartWrite, ...]
    flushes: tuple[ChartFlush, ...]
    marks: tuple[ChartMark, ...]
    overview_step: float
    overview: Mapping[Fate, tuple[int, ...]]

    @property
    def lost(self) -> tuple[ChartWrite, ...]:
        """The writes that the crash lost or tore."""
        return tuple(write for write in self.writes if write.fate in (Fate.DROPPED, Fate.TORN))

    def promises_before(self) -> tuple[ChartMark, ...]:
        """The promises made before the cut, oldest first."""
        return tuple(
            mark
            for mark in self.marks
            if mark.kind is MarkKind.PROMISE and mark.position < self.cut
        )

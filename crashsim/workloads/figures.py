"""What a recording holds between its START and END marks."""

from dataclasses import dataclass

from crashsim.disk.log import Log
from crashsim.disk.request import Operation
from crashsim.errors import UsageError
from crashsim.workloads.marks import END, START, promises


class NoStart(UsageError):
    """A recording ended before its workload began, so there is nothing to explore."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where the workload is in the log.

    :ivar start: position of the START mark.
    :ivar end: position of the END mark; the number of events where a recording was cut short.
    """

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Figures:
    """What was submitted inside a span.

    :ivar writes: WRITE, WRITE_ZEROES and TRIM requests.
    :ivar bytes: the payload of the WRITEs among them.
    """

    writes: int
    flushes: int
    bytes: int
    promises: int


def span(log: Log) -> Span:
    """The workload's part of a log. Raises NoStart."""
    positions = {mark.text: mark.position for mark in log.marks if mark.text in (START, END)}
    if START not in positions:
        raise NoStart(f"{log.directory}: this recording ended during its set-up: record again")
    return Span(positions[START], positions.get(END, log.event_count))


def figures(log: Log) -> Figures:
    """Count. Raises NoStart."""
    where = span(log)
    submitted = log.requests.submitted_at
    inside = (submitted > where.start) & (submitted < where.end)
    operation = log.requests.operation[inside]
    is_write = operation == Operation.WRITE
    return Figures(
        writes=int((operation != Operation.FLUSH).sum()),
        flushes=int((operation == Operation.FLUSH).sum()),
        bytes=int(log.requests.length_bytes[inside][is_write].sum()),
        promises=len(
            promises(mark.text for mark in log.marks if where.start < mark.position < where.end)
        ),
    )

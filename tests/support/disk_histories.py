"""Random request histories, and a naive model of what they leave on the disk.

The model shares nothing with crashsim.disk but the types of requests and states: it replays plain
Python lists into a bytearray, so that it can be read and believed.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from hypothesis import strategies as st

from crashsim.disk.log import Log, LogWriter
from crashsim.disk.request import Operation, Request
from crashsim.disk.state import CrashState, TornWrite

SECTOR = 512
DISK_SECTORS = 40
DISK_BYTES = DISK_SECTORS * SECTOR


class Submit(NamedTuple):
    """A request arrives; its number is how many came before it."""

    request: Request


class Complete(NamedTuple):
    """The reply to request `number` is sent."""

    number: int
    error: int


class Mark(NamedTuple):
    """The workload makes a mark."""

    text: str


Event = Submit | Complete | Mark


@dataclass
class History:
    """A list of events, and the requests among them.

    :ivar disks: of how many disks; each has DISK_BYTES, one after the other.
    """

    events: list[Event] = field(default_factory=list)
    disks: int = 1

    @property
    def requests(self) -> list[Request]:
        """In the order of submission."""
        return [event.request for event in self.events if isinstance(event, Submit)]

    def record(self, directory: Path) -> Log:
        """Write it with the real writer, and read it back."""
        with LogWriter(directory, DISK_BYTES * self.disks, self.disks) as writer:
            for event in self.events:
                match event:
                    case Submit(request):
                        writer.submit(request)
                    case Complete(number, error):
                        writer.complete(number, error)
                    case Mark(text):
                        writer.mark(text)
        return Log.open(directory)

    def submitted_at(self, number: int) -> int:
        """The position of a request's arrival."""
        submits = [at for at, event in enumerate(self.events) if isinstance(event, Submit)]
        return submits[number]

    def durable(self, number: int, cut: int, volatile_cache: bool = True) -> bool:
        """The rule, word by word: is this request durable at `cut`?"""
        happened = self.events[:cut]
        for at, event in enumerate(happened):
            if not isinstance(event, Complete) or event.number != number or event.error:
                continue
            if self.requests[number].fua or not volatile_cache:
                return True
            # Some FLUSH of its disk that arrived after this completion and that has succeeded?
            disk = self.requests[number].offset_bytes // DISK_BYTES
            for flush, request in enumerate(self.requests):
                if (
                    request.operation is Operation.FLUSH
                    and request.offset_bytes == disk * DISK_BYTES
                    and self.submitted_at(flush) > at
                    and Complete(flush, 0) in happened
                ):
                    return True
        return False

    def pending(self, cut: int, volatile_cache: bool = True) -> list[int]:
        """The writes that a power cut may lose."""
        return [
            number
            for number, request in enumerate(self.requests)
            if request.changes_media
            and self.submitted_at(number) < cut
            and not self.durable(number, cut, volatile_cache)
        ]

    def image(self, state: CrashState, unit: int, base: bytes = b"") -> bytes:
        """The disk that a state stands for, by writing everything kept, in order."""
        disk = bytearray(base or DISK_BYTES * self.disks)
        torn = {each.write: each.kept_units for each in state.torn}
        for number, request in enumerate(self.requests):
            if not request.changes_media or self.submitted_at(number) >= state.cut:
                continue
            if number in state.dropped:
                continue
            length = request.length_bytes
            data = request.data if request.operation is Operation.WRITE else bytes(length)
            for index, start in enumerate(range(0, length, unit)):
                if number in torn and index not in torn[number]:
                    continue
                part = data[start : start + unit]
                place = request.offset_bytes + start
                disk[place : place + len(part)] = part
        return bytes(disk)


_OPERATIONS = [
    *[Operation.WRITE] * 6,
    Operation.WRITE_ZEROES,
    Operation.TRIM,
    *[Operation.FLUSH] * 4,
]


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Any request that changes something. Few sizes, contents and places, so that many collide."""
    operation = draw(st.sampled_from(_OPERATIONS))
    if operation is Operation.FLUSH:
        return Request(operation)
    first, sectors = draw(
        st.one_of(
            # Whole pages, as file systems mostly write.
            st.tuples(st.sampled_from([0, 8, 16, 24, 32]), st.sampled_from([8, 16])),
            st.tuples(st.integers(0, DISK_SECTORS - 1), st.integers(1, 20)),
        )
    )
    sectors = min(sectors, DISK_SECTORS - first)
    fua = draw(st.booleans())
    if operation is not Operation.WRITE:
        return Request(operation, first * SECTOR, sectors * SECTOR, fua)
    values = st.integers(0, 3)
    if draw(st.booleans()):
        data = bytes([draw(values)]) * (sectors * SECTOR)
    else:
        data = b"".join(bytes([draw(values)]) * SECTOR for _ in range(sectors))
    return Request(operation, first * SECTOR, sectors * SECTOR, fua, data)


@st.composite
def histories(draw: st.DrawFn, maximum_events: int = 30, disks: int = 1) -> History:
    """Requests that arrive and end in any order, some never, some with an error."""
    history = History(disks=disks)
    in_flight: list[int] = []
    submitted = 0
    for _ in range(draw(st.integers(0, maximum_events))):
        action = draw(st.sampled_from(["submit", "complete", "complete", "mark"]))
        if action == "submit" or (action == "complete" and not in_flight):
            request = draw(requests())
            place = draw(st.integers(0, disks - 1)) * DISK_BYTES if disks > 1 else 0
            history.events.append(
                Submit(replace(request, offset_bytes=request.offset_bytes + place))
            )
            in_flight.append(submitted)
            submitted += 1
        elif action == "complete":
            number = in_flight.pop(draw(st.integers(0, len(in_flight) - 1)))
            history.events.append(Complete(number, draw(st.sampled_from([0] * 7 + [5]))))
        else:
            history.events.append(Mark(draw(st.sampled_from(["", "saved", "été"]))))
    return history


@st.composite
def states(
    draw: st.DrawFn, history: History, unit: int = SECTOR, volatile_cache: bool = True
) -> CrashState:
    """A legal crash state of a history."""
    cut = draw(st.integers(0, len(history.events)))
    dropped, torn = [], []
    for number in history.pending(cut, volatile_cache):
        units = -(-history.requests[number].length_bytes // unit)
        fate = draw(st.sampled_from(["keep", "drop", "tear"]))
        if fate == "drop":
            dropped.append(number)
        elif fate == "tear" and units > 1:
            kept = draw(st.sets(st.integers(0, units - 1), min_size=1, max_size=units - 1))
            torn.append(TornWrite(number, tuple(sorted(kept))))
    return CrashState.make(cut, dropped, torn)

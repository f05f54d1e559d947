"""How long a device takes to answer, and replies that are held back until they are due.

Our server answers in tens of microseconds, since it makes nothing durable. A real device takes as
long as its cache and its medium do, and what a program's syncs cost is mostly that.
"""

import heapq
from dataclasses import dataclass
from typing import Generic, TypeVar

from crashsim.disk.request import Operation, Request

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Latency:
    """From a request's arrival to its reply, at the least. A READ is answered at once.

    A constant for each kind: how full a cache is, where a head is, and what else is asked at the
    same time have no part in it.

    :ivar write_seconds: of a WRITE, WRITE ZEROES or TRIM.
    :ivar flush_seconds: of a FLUSH; with FUA, a write takes this too.
    """

    write_seconds: float = 0.0
    flush_seconds: float = 0.0

    def __post_init__(self) -> None:
        """Refuse replies before their requests."""
        if not (0 <= self.write_seconds < 60 and 0 <= self.flush_seconds < 60):
            raise ValueError(f"{self} is no latency: 0 to 60 seconds")

    def seconds(self, request: Request) -> float:
        """Of one request."""
        if request.operation is Operation.FLUSH:
            return self.flush_seconds
        if not request.changes_media:
            return 0.0
        return self.write_seconds + (self.flush_seconds if request.fua else 0.0)


NO_LATENCY = Latency()


class HeldReplies(Generic[T]):
    """Replies by when they are due. Times are those of any one clock, in seconds.

    Replies due at the same time leave in the order that they were added in. A write never leaves
    before an earlier one that it overlaps: which of the two has the last word is decided by their
    order of arrival everywhere else.
    """

    def __init__(self) -> None:
        """Nothing is held."""
        self._heap: list[tuple[float, int, Request, T]] = []
        self._added = 0

    def __bool__(self) -> bool:
        """Whether anything is held."""
        return bool(self._heap)

    def hold(self, request: Request, due_seconds: float, reply: T) -> None:
        """Hold back `reply`, the one to `request`, until then."""
        if request.changes_media:
            for held_until, _, earlier, _ in self._heap:
                if held_until > due_seconds and _overlap(earlier, request):
                    due_seconds = held_until
        heapq.heappush(self._heap, (due_seconds, self._added, request, reply))
        self._added += 1

    def due(self, now_seconds: float) -> list[T]:
        """Take out what is due, in the order in which it became so."""
        replies = []
        while self._heap and self._heap[0][0] <= now_seconds:
            replies.append(heapq.heappop(self._heap)[3])
        return replies

    @property
    def next_due_seconds(self) -> float:
        """When there will be something to take out. Raises IndexError when nothing is held."""
        return self._heap[0][0]


def _overlap(one: Request, other: Request) -> bool:
    """Whether both change the same sector; `other` does change something."""
    return (
        one.changes_media
        and one.offset_bytes < other.offset_bytes + other.length_bytes
        and other.offset_bytes < one.offset_bytes + one.length_bytes
    )

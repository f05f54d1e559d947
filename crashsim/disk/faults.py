"""Errors of a disk: which requests fail, and a disk on which they do.

The guest is told EIO whatever went wrong: virtio-blk knows no other error (VIRTIO_BLK_S_IOERR of
the virtio specification). What a failed write was to change is unchanged for everyone who reads it
later; in crash states it counts as never durable.
"""

import errno
import re
from dataclasses import dataclass

from crashsim.disk.request import SECTOR_BYTES, Operation, Request
from crashsim.disk.server import Disk
from crashsim.errors import UsageError

READS = frozenset({Operation.READ})
WRITES = frozenset({Operation.WRITE, Operation.WRITE_ZEROES, Operation.TRIM})
FLUSHES = frozenset({Operation.FLUSH})
_KINDS = {"read": READS, "write": WRITES, "flush": FLUSHES}
_SYNTAX = re.compile(
    r"(?:(?P<kind>read|write|flush):(?P<number>\d+)|sectors:(?P<first>\d+)-(?P<last>\d+))"
    r"(?::EIO)?(?P<lasting>:lasting)?"
)


class BadFault(UsageError):
    """A fault is asked for that a disk cannot have."""


@dataclass(frozen=True, slots=True)
class DiskFault:
    """Which requests fail with EIO.

    :ivar operations: only these.
    :ivar number: the how manieth of those that match, from 1; counted from when the disk is armed.
    :ivar sectors: only requests that touch one from the first to before the second number.
    :ivar content: only writes that have these bytes in them.
    :ivar lasting: all that match from that one on, not only that one.
    """

    operations: frozenset[Operation]
    number: int = 1
    sectors: tuple[int, int] | None = None
    content: bytes = b""
    lasting: bool = False

    def matches(self, request: Request) -> bool:
        """Whether it is a request of the kind that fails."""
        if request.operation not in self.operations or self.content not in request.data:
            return False
        if self.sectors is None:
            return True
        first = request.offset_bytes // SECTOR_BYTES
        end = (request.offset_bytes + request.length_bytes) // SECTOR_BYTES
        return first < self.sectors[1] and self.sectors[0] < end


def parse_disk_fault(text: str) -> DiskFault:
    """`write:N`, `flush:N`, `read:N` or `sectors:A-B`, then `:EIO` and `:lasting` if wanted.

    A bad range of sectors fails until somebody repairs it: `sectors` is always lasting, for reads
    and writes. Raises BadFault.
    """
    found = _SYNTAX.fullmatch(text)
    if found is None:
        raise BadFault(
            f"--fault {text}: write read:N, write:N or flush:N (N from 1) or sectors:A-B, and then "
            ":lasting if it stays; a disk gives no other error than EIO"
        )
    lasting = found["lasting"] is not None
    if found["kind"] is None:
        first, last = int(found["first"]), int(found["last"])
        if last < first:
            raise BadFault(f"--fault {text}: the last sector comes before the first")
        return DiskFault(READS | WRITES, sectors=(first, last + 1), lasting=True)
    if found["number"] == "0":
        raise BadFault(f"--fault {text}: requests are counted from 1")
    return DiskFault(_KINDS[found["kind"]], int(found["number"]), lasting=lasting)


class FaultyDisk:
    """A Disk that passes everything on to another one, but for what fails.

    :ivar size_bytes: the other one's.
    :ivar failed: the requests that failed, in order, without their data.
    """

    def __init__(self, disk: Disk, fault: DiskFault) -> None:
        """Sound until it is armed."""
        self.size_bytes = disk.size_bytes
        self.failed: list[Request] = []
        self._disk = disk
        self._fault = fault
        self._armed = False
        self._count = 0

    def arm(self) -> None:
        """Begin to count."""
        self._armed = True

    def arrived(self, request: Request) -> int:
        """Pass on."""
        return self._disk.arrived(request)

    def perform(self, request: Request) -> bytes:
        """Fail, or pass on. Raises OSError."""
        if self._armed and self._fault.matches(request):
            self._count += 1
            late = self._count > self._fault.number
            if self._count == self._fault.number or (late and self._fault.lasting):
                self.failed.append(
                    Request(request.operation, request.offset_bytes, request.length_bytes)
                )
                raise OSError(errno.EIO, "injected")
        return self._disk.perform(request)

    def replied(self, ticket: int, error: int) -> None:
        """Pass on."""
        self._disk.replied(ticket, error)

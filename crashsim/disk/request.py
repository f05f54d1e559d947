"""What a guest asks of its disk."""

from dataclasses import dataclass, field
from enum import IntEnum

SECTOR_BYTES = 512
PAGE_BYTES = 4096
"""The granularity of page contents, read sets and image identity. Requests may be smaller."""


class Operation(IntEnum):
    """The kinds of requests; the values are written to disk in the log and must not change."""

    READ = 0
    WRITE = 1
    WRITE_ZEROES = 2
    TRIM = 3
    FLUSH = 4


@dataclass(frozen=True, slots=True)
class Request:
    """One request of the guest.

    :ivar offset_bytes: where it starts on the disk; for a FLUSH 0, or in a log of several disks
        where the disk begins that it is of.
    :ivar length_bytes: how much it covers; 0 for a FLUSH.
    :ivar fua: forced unit access: the reply promises that this write is durable.
    :ivar data: the payload of a WRITE, `length_bytes` long; empty for every other operation.
    """

    operation: Operation
    offset_bytes: int = 0
    length_bytes: int = 0
    fua: bool = False
    data: bytes = field(default=b"", repr=False)

    @property
    def changes_media(self) -> bool:
        """Whether this request changes what the disk holds (a WRITE, WRITE_ZEROES or TRIM)."""
        return self.operation in (Operation.WRITE, Operation.WRITE_ZEROES, Operation.TRIM)

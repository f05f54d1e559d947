"""The target `flakey`: admin-guide/device-mapper/dm-flakey.rst.

Time starts when the table is *loaded*: the device is well for `up_seconds`, ill for `down_seconds`,
and so on. `up_seconds=0` is ill at once and for good.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from .errors import BadTable
from .tables import SECTORS_MAX, device_argument, within

NUMBER_MAX = (1 << 32) - 1
PER_BILLION = 1_000_000_000


class Direction(StrEnum):
    """What is corrupted."""

    READ = "r"
    WRITE = "w"


@dataclass(frozen=True, slots=True)
class CorruptByte:
    """One byte of each matching request is replaced.

    :ivar nth_byte: which one, from 1 on.
    :ivar request_flags: only requests with all these bits in `bi_opf` (linux/blk_types.h), or 0.
    """

    nth_byte: int
    direction: Direction
    value: int
    request_flags: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        within("nth_byte", self.nth_byte, 1, NUMBER_MAX)
        within("value", self.value, 0, 255)
        within("request_flags", self.request_flags, 0, NUMBER_MAX)


@dataclass(frozen=True, slots=True)
class Flakey:
    """A device that is ill now and then. Without any of the features all I/O fails while it is.

    :ivar drop_writes: writes seem to succeed and are forgotten.
    :ivar error_writes: writes fail with EIO.
    :ivar error_reads: reads fail with EIO (Linux 6.5).
    :ivar random_read_corrupt: in so many of 1,000,000,000 reads a random byte is replaced by a
        random one (Linux 6.5).
    :ivar random_write_corrupt: the same for writes (Linux 6.5).
    """

    kind: ClassVar[str] = "flakey"
    device: str
    up_seconds: int
    down_seconds: int
    offset_sectors: int = 0
    drop_writes: bool = False
    error_writes: bool = False
    error_reads: bool = False
    corrupt_byte: CorruptByte | None = None
    random_read_corrupt: int = 0
    random_write_corrupt: int = 0

    def __post_init__(self) -> None:
        """Check the parameters, as the kernel does in words that only its log has."""
        within("offset_sectors", self.offset_sectors, 0, SECTORS_MAX)
        within("up_seconds", self.up_seconds, 0, NUMBER_MAX)
        within("down_seconds", self.down_seconds, 0, NUMBER_MAX - self.up_seconds)
        within("random_read_corrupt", self.random_read_corrupt, 0, PER_BILLION)
        within("random_write_corrupt", self.random_write_corrupt, 0, PER_BILLION)
        if self.up_seconds + self.down_seconds == 0:
            raise BadTable("up_seconds and down_seconds are both 0: one of them must not be")
        if self.drop_writes and self.error_writes:
            raise BadTable("drop_writes and error_writes exclude each other")
        if (self.drop_writes or self.error_writes) and self._corrupts(Direction.WRITE):
            raise BadTable("writes cannot be dropped or refused and corrupted as well")
        if self.error_reads and self._corrupts(Direction.READ):
            raise BadTable("reads cannot be refused and corrupted as well")

    @property
    def arguments(self) -> str:
        """As in a table."""
        features = self._features()
        intervals = f"{self.offset_sectors} {self.up_seconds} {self.down_seconds}"
        return " ".join((device_argument(self.device), intervals, str(len(features)), *features))

    def _features(self) -> list[str]:
        words = [
            name for name in ("drop_writes", "error_writes", "error_reads") if getattr(self, name)
        ]
        if self.corrupt_byte is not None:
            byte = self.corrupt_byte
            numbers = (str(byte.nth_byte), byte.direction, str(byte.value), str(byte.request_flags))
            words += ["corrupt_bio_byte", *numbers]
        for name in ("random_read_corrupt", "random_write_corrupt"):
            if getattr(self, name):
                words += [name, str(getattr(self, name))]
        return words

    def _corrupts(self, direction: Direction) -> bool:
        at_random = {
            Direction.READ: self.random_read_corrupt,
            Direction.WRITE: self.random_write_corrupt,
        }
        byte = self.corrupt_byte
        return bool(at_random[direction]) or (byte is not None and byte.direction is direction)

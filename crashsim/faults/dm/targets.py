"""The targets, one class each: what the kernel's admin-guide/device-mapper says of them.

Sectors are of 512 bytes. A device is given by its path or as `major:minor`.
"""

from dataclasses import dataclass
from typing import ClassVar

from .errors import BadTable
from .tables import SECTORS_MAX, device_argument, escaped, within

MARK_BYTES_MAX = 479
"""The kernel cuts longer ones: an entry is a sector, with a header of 32 bytes and a final NUL."""

DELAY_MILLISECONDS_MAX = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Linear:
    """Another device's sectors from an offset on."""

    kind: ClassVar[str] = "linear"
    device: str
    offset_sectors: int = 0

    def __post_init__(self) -> None:
        """Check the parameters."""
        within("offset_sectors", self.offset_sectors, 0, SECTORS_MAX)

    @property
    def arguments(self) -> str:
        """As in a table."""
        return f"{device_argument(self.device)} {self.offset_sectors}"


@dataclass(frozen=True, slots=True)
class Zero:
    """Reads give zeroes, writes are forgotten."""

    kind: ClassVar[str] = "zero"
    arguments: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Error:
    """All I/O fails with EIO."""

    kind: ClassVar[str] = "error"
    arguments: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class Latency:
    """Where requests of one direction go, and after how long."""

    device: str
    offset_sectors: int
    milliseconds: int

    def __post_init__(self) -> None:
        """Check the parameters."""
        within("offset_sectors", self.offset_sectors, 0, SECTORS_MAX)
        within("milliseconds", self.milliseconds, 0, DELAY_MILLISECONDS_MAX)

    @property
    def arguments(self) -> str:
        """As in a table."""
        return f"{device_argument(self.device)} {self.offset_sectors} {self.milliseconds}"


@dataclass(frozen=True, slots=True)
class Delay:
    """Requests are passed on after a while.

    :ivar writes: for writes and flushes; without it they are treated as reads.
    :ivar flushes: for flushes; without it they are treated as writes.
    """

    kind: ClassVar[str] = "delay"
    reads: Latency
    writes: Latency | None = None
    flushes: Latency | None = None

    def __post_init__(self) -> None:
        """Check the parameters."""
        if self.flushes is not None and self.writes is None:
            raise BadTable("a delay with a latency of flushes needs one of writes, too")

    @property
    def arguments(self) -> str:
        """As in a table."""
        each = (self.reads, self.writes, self.flushes)
        return " ".join(latency.arguments for latency in each if latency is not None)


@dataclass(frozen=True, slots=True)
class LogWrites:
    """A device whose writes are also logged, with marks, to another one."""

    kind: ClassVar[str] = "log-writes"
    device: str
    log_device: str

    @property
    def arguments(self) -> str:
        """As in a table."""
        return f"{device_argument(self.device)} {device_argument(self.log_device)}"

    @staticmethod
    def mark(text: str) -> str:
        """The message that puts a mark into the log. Raises BadTable for one that is cut there."""
        size = len(text.encode())
        if not 0 < size <= MARK_BYTES_MAX or "\0" in text:
            raise BadTable(
                f"a mark of {size} bytes: it has 1 to {MARK_BYTES_MAX}, none of them NUL"
            )
        return f"mark {escaped(text)}"

    @staticmethod
    def logged(status: str) -> tuple[int, int]:
        """(entries logged, the log's highest sector allocated) from a row's status."""
        entries, sector = status.split()
        return int(entries), int(sector)


@dataclass(frozen=True, slots=True)
class Dust:
    """Bad sectors wherever messages put them: reads of them fail, a write heals them.

    It starts in bypass: send `ENABLE`. Not part of Debian's kernels.
    """

    kind: ClassVar[str] = "dust"
    device: str
    offset_sectors: int = 0
    block_bytes: int = 512

    ENABLE: ClassVar[str] = "enable"
    DISABLE: ClassVar[str] = "disable"
    CLEAR_BAD_BLOCKS: ClassVar[str] = "clearbadblocks"
    COUNT_BAD_BLOCKS: ClassVar[str] = "countbadblocks"
    TOGGLE_QUIET: ClassVar[str] = "quiet"

    def __post_init__(self) -> None:
        """Check the parameters."""
        within("offset_sectors", self.offset_sectors, 0, SECTORS_MAX)
        within("block_bytes", self.block_bytes, 512, 1 << 30)
        if self.block_bytes & (self.block_bytes - 1):
            raise BadTable(f"block_bytes is {self.block_bytes}: it must be a power of two")

    @property
    def arguments(self) -> str:
        """As in a table."""
        return f"{device_argument(self.device)} {self.offset_sectors} {self.block_bytes}"

    @staticmethod
    def add_bad_block(block: int) -> str:
        """The message that makes a block bad."""
        within("a block", block, 0, SECTORS_MAX)
        return f"addbadblock {block}"

    @staticmethod
    def remove_bad_block(block: int) -> str:
        """The message that makes a bad block good again."""
        within("a block", block, 0, SECTORS_MAX)
        return f"removebadblock {block}"

    @staticmethod
    def query_block(block: int) -> str:
        """The message that asks for a block; the answer is in the kernel's log (before 5.14)."""
        within("a block", block, 0, SECTORS_MAX)
        return f"queryblock {block}"

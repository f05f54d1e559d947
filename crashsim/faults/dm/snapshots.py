"""The targets `snapshot-origin` and `snapshot`: admin-guide/device-mapper/snapshot.rst."""

from dataclasses import dataclass
from typing import ClassVar

from .errors import BadTable
from .tables import device_argument, within

CHUNK_SECTORS_MAX = 1 << 20


@dataclass(frozen=True, slots=True)
class SnapshotOrigin:
    """A device that has snapshots: before a chunk is overwritten they get what was there.

    It must be suspended while a snapshot of it is loaded or removed.
    """

    kind: ClassVar[str] = "snapshot-origin"
    device: str

    @property
    def arguments(self) -> str:
        """As in a table."""
        return device_argument(self.device)


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """How full a snapshot is.

    :ivar valid: it can still be read: its store has not overflowed.
    """

    valid: bool
    used_sectors: int = 0
    total_sectors: int = 0
    metadata_sectors: int = 0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What `origin` was like, with changes of its own in `store`.

    :ivar persistent: it survives a restart; else its map is in memory only.
    :ivar chunk_sectors: how much is copied at once; a power of two.
    """

    kind: ClassVar[str] = "snapshot"
    origin: str
    store: str
    persistent: bool = False
    chunk_sectors: int = 8

    def __post_init__(self) -> None:
        """Check the parameters."""
        within("chunk_sectors", self.chunk_sectors, 1, CHUNK_SECTORS_MAX)
        if self.chunk_sectors & (self.chunk_sectors - 1):
            raise BadTable(f"chunk_sectors is {self.chunk_sectors}: it must be a power of two")

    @property
    def arguments(self) -> str:
        """As in a table."""
        kind = "P" if self.persistent else "N"
        devices = f"{device_argument(self.origin)} {device_argument(self.store)}"
        return f"{devices} {kind} {self.chunk_sectors}"

    @staticmethod
    def status(text: str) -> SnapshotStatus:
        """Read a row's status: `16/2048 16`, or a word such as `Invalid` or `Overflow`."""
        sectors, _, metadata = text.strip().partition(" ")
        used, slash, total = sectors.partition("/")
        if not slash:
            return SnapshotStatus(False)
        return SnapshotStatus(True, int(used), int(total), int(metadata))

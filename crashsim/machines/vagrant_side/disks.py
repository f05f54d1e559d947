"""The crash disks of a guest: the host's, or one that this kernel records and cuts.

A slot is one device for as long as the guest lives; only what lies below it changes:

    slot -> NBD device                      the host serves it (crash states)
    slot -> dm-flakey -> dm-log-writes      recording: the log on the first half of the spare disk,
              -> snapshot of zeroes         what is written on the second half

The snapshot makes the disk blank again without a write: its map is in memory only. The power cut is
dm-flakey's `drop_writes`: what comes later seems to succeed and reaches neither disk nor log.
"""

import contextlib
import os
import struct
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Protocol

from crashsim.faults.dm.device import Device, Suspension
from crashsim.faults.dm.flakey import NUMBER_MAX, Flakey
from crashsim.faults.dm.session import DeviceMapper
from crashsim.faults.dm.snapshots import Snapshot
from crashsim.faults.dm.tables import Target, whole
from crashsim.faults.dm.targets import Linear, LogWrites, Zero

from .spare import LOG_MAGIC, SECTOR_BYTES, find_spare

PIECE_BYTES = 1 << 20
SPARE_BYTES = 16 << 20
"""A log that comes this near to the end of its device may have been given up by the kernel."""

_SUPERBLOCK = struct.Struct("<QQQI")
_ENTRY = struct.Struct("<QQQQ")
_DISCARD = 4
"""See `crashsim.disk.dm_log_writes`, which cannot be had here."""

_WELL_SECONDS = NUMBER_MAX - 1


class RecordingLost(Exception):
    """The log or the store of what was written is full: raise SPARE_DISK_GIB in the Vagrantfile."""


class Backing(Protocol):
    """What a slot shows when it is not recorded."""

    path: str
    size_bytes: int

    def break_off(self) -> None:
        """Let everything fail that is asked of it from now on."""


class Slot:
    """A crash disk of the guest."""

    def __init__(
        self, number: int, mapper: DeviceMapper, stack: contextlib.ExitStack, backing: Backing
    ) -> None:
        """Make its device in `stack`, backed by `backing` from the start."""
        self._mapper = mapper
        self._stack = stack
        self._backing = backing
        self._recorder: Recorder | None = None
        table = whole(backing.size_bytes, Linear(backing.path))
        name = f"crashsim-{os.getpid()}-{number}"
        self._device = stack.enter_context(mapper.device(name, table))

    @property
    def path(self) -> str:
        """Its node, from now on."""
        return self._device.path

    @property
    def recorder(self) -> "Recorder":
        """What records it; RecordingLost where nothing does."""
        if self._recorder is None:
            raise RecordingLost("this disk is not being recorded")
        return self._recorder

    def record(self) -> None:
        """From now on it is blank, and the spare disk's; every write is logged."""
        prefix = f"{self._device.name}-"
        recorder = Recorder(self._mapper, self._stack, prefix, self._backing.size_bytes)
        self._become(Flakey(recorder.path, _WELL_SECONDS, 0))
        self._recorder = recorder

    def cut(self) -> None:
        """The power goes: nothing that is written from now on reaches the disk or the log."""
        self._become(Flakey(self.recorder.path, 0, _WELL_SECONDS, drop_writes=True))

    def let_go(self) -> None:
        """Nothing below it any more; for the end, when its guest has gone."""
        self._become(Zero())

    def break_off(self) -> None:
        """Whatever is asked of the host from now on fails: the guest is at its end."""
        self._backing.break_off()

    def _become(self, target: Target) -> None:
        self._device.reconfigure(whole(self._backing.size_bytes, target), Suspension.FLUSH)


class Recorder:
    """dm-log-writes on the spare disk."""

    def __init__(
        self, mapper: DeviceMapper, stack: contextlib.ExitStack, prefix: str, size_bytes: int
    ) -> None:
        """Make a blank disk of `size_bytes` and its log. Raises NoSpareDisk."""
        spare, spare_bytes = find_spare()
        half = spare_bytes // 2 // PIECE_BYTES * PIECE_BYTES
        self._half_sectors = half // SECTOR_BYTES

        def device(name: str, size: int, target: Target) -> Device:
            return stack.enter_context(mapper.device(prefix + name, whole(size, target)))

        self._log = device("log", half, Linear(spare))
        store = device("store", half, Linear(spare, self._half_sectors))
        zero = device("zero", size_bytes, Zero())
        self._blank = device("blank", size_bytes, Snapshot(zero.path, store.path))
        self._own = stack.enter_context(contextlib.ExitStack())
        table = whole(size_bytes, LogWrites(self._blank.path, self._log.path))
        self._logged = self._own.enter_context(mapper.device(prefix + "logged", table))

    @property
    def path(self) -> str:
        """The device whose writes are logged."""
        return self._logged.path

    def mark(self, text: str) -> None:
        """Put a mark into the log; it may have as many bytes as the kernel keeps."""
        self._logged.message(LogWrites.mark(text))

    def count(self) -> int:
        """How many entries the log has."""
        return LogWrites.logged(self._logged.status()[0].parameters)[0]

    def finish(self) -> int:
        """End the log, once nothing uses `path`; how many bytes it has. Raises RecordingLost."""
        _, sector = LogWrites.logged(self._logged.status()[0].parameters)
        snapshot = Snapshot.status(self._blank.status()[0].parameters)
        # Removing it logs what was not flushed, and then a mark of the kernel's own.
        self._own.close()
        with open(self._log.path, "rb") as file:
            length_bytes = log_length_bytes(file)
        end_bytes = max(length_bytes, (sector + 1) * SECTOR_BYTES)
        if not snapshot.valid or end_bytes + SPARE_BYTES >= self._half_sectors * SECTOR_BYTES:
            raise RecordingLost(
                "the spare disk is too small for what the workload writes: make SPARE_DISK_GIB in "
                "the Vagrantfile larger"
            )
        return length_bytes

    def pieces(self, length_bytes: int) -> Iterator[bytes]:
        """The log, in pieces; each is compressed by itself, since most of a fresh disk is empty."""
        with open(self._log.path, "rb") as file:
            while length_bytes:
                piece = file.read(min(PIECE_BYTES, length_bytes))
                if not piece:
                    raise RecordingLost("the log ends before its end")
                length_bytes -= len(piece)
                yield zlib.compress(piece, 1)


def log_length_bytes(file: BinaryIO) -> int:
    """Where a log of dm-log-writes ends. Raises RecordingLost for what is none."""
    magic, _, count, sector_bytes = _SUPERBLOCK.unpack(file.read(_SUPERBLOCK.size))
    if magic.to_bytes(8, "little") != LOG_MAGIC:
        raise RecordingLost("there is no log on the spare disk")
    place = int(sector_bytes)
    for _ in range(count):
        file.seek(place)
        _, sectors, flags, _ = _ENTRY.unpack(file.read(_ENTRY.size))
        place += sector_bytes * (1 if flags & _DISCARD else 1 + sectors)
    return place

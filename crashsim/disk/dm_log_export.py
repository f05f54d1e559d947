"""Writing our logs in the format of dm-log-writes; see `dm_log_writes` for the format."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from crashsim.disk.dm_log_writes import (
    ENTRY,
    MAGIC,
    SUPERBLOCK,
    VERSION,
    Flag,
    mark_pieces,
)
from crashsim.disk.log import Log
from crashsim.disk.log_writer import DISK_FULL_ERRNOS, RecordingDiskFull, RecordingFailed
from crashsim.disk.request import SECTOR_BYTES, Operation
from crashsim.errors import UsageError


def export_dm_log(log: Log, target: Path) -> None:
    """Write a log of ours as dm-log-writes would have, to the new file `target`.

    Writes are put in order of their durability, not of their arrival. Where a write overlaps one
    that came later but became durable sooner, what overlaps is left out: replayed in order, the
    log gives our final image, and at each mark and FLUSH what is before it is what was durable.
    Writes that failed or did not end, and WRITE_ZEROES as a write of zeroes, are in it, too.

    Raises RecordingDiskFull and RecordingFailed; UsageError if `target` exists, and for a log of
    several disks: dm-log-writes logs one device.
    """
    if log.disks > 1:
        raise UsageError(f"the recording is of {log.disks} disks: a dm-log-writes log is of one")
    try:
        with target.open("xb") as file:
            _Writer(file, log).write()
    except FileExistsError as error:
        raise UsageError(f"{target} exists already: choose another file") from error
    except OSError as error:
        kind = RecordingDiskFull if error.errno in DISK_FULL_ERRNOS else RecordingFailed
        raise kind(f"cannot write {target}: {error.strerror}") from error


@dataclass
class _Writer:
    """Puts a log's requests in the order in which the kernel would have logged them."""

    file: BinaryIO
    log: Log
    count: int = 0
    unflushed: list[int] = field(default_factory=list)
    covered: dict[int, list[int]] = field(default_factory=dict)
    ahead: set[int] = field(default_factory=set)
    flushes: frozenset[int] = frozenset()
    first_missing: int = 0

    def write(self) -> None:
        flushes = np.flatnonzero(~self.log.requests.changes_media)
        self.flushes = frozenset(flushes.tolist())
        self.file.write(bytes(SECTOR_BYTES))
        for kind, number in _events(self.log):
            if kind == "submit":
                self._submitted(number)
            elif kind == "complete":
                self._completed(number)
            else:
                self._mark(self.log.marks[number].text)
        for number in np.flatnonzero(self.log.requests.changes_media).tolist():
            self._emit(number, 0)
        self.file.truncate(self.file.tell())
        self.file.seek(0)
        self.file.write(SUPERBLOCK.pack(MAGIC, VERSION, self.count, SECTOR_BYTES))

    def _submitted(self, number: int) -> None:
        if self.log.requests.operation[number] == Operation.FLUSH:
            self.covered[number] = self.unflushed
            self.unflushed = []

    def _completed(self, number: int) -> None:
        requests = self.log.requests
        if requests.error[number]:
            return
        if requests.operation[number] != Operation.FLUSH:
            if requests.fua[number]:
                self._emit(number, Flag.FUA)
            else:
                self.unflushed.append(number)
            return
        # What an earlier flush covers, this one does, too, even if the earlier one is not done.
        flushes = [flush for flush in self.covered if flush <= number]
        for write in sorted(write for flush in flushes for write in self.covered.pop(flush)):
            self._emit(write, 0)
        self._entry(0, 0, Flag.FLUSH)

    def _emit(self, number: int, flags: int) -> None:
        """Write a request, but for what a later request that is already written covers."""
        if number < self.first_missing or number in self.ahead:
            return
        requests = self.log.requests
        offset = int(requests.offset_bytes[number])
        extents = [(offset, offset + int(requests.length_bytes[number]))]
        for later in self.ahead:
            if later > number:
                start = int(requests.offset_bytes[later])
                end = start + int(requests.length_bytes[later])
                extents = [rest for each in extents for rest in _without(each, (start, end))]
        is_trim = requests.operation[number] == Operation.TRIM
        for start, end in extents:
            self._entry(start, end - start, flags | (Flag.DISCARD if is_trim else 0))
            if requests.operation[number] == Operation.WRITE:
                place = int(requests.data_offset[number]) + start - offset
                self.file.write(self.log.read_data(place, end - start))
            elif not is_trim:
                self.file.seek(end - start, os.SEEK_CUR)
        self._note_written(number)

    def _note_written(self, number: int) -> None:
        self.ahead.add(number)
        while self.first_missing in self.ahead or self.first_missing in self.flushes:
            self.ahead.discard(self.first_missing)
            self.first_missing += 1

    def _mark(self, text: str) -> None:
        for piece in mark_pieces(text.encode("utf-8", "surrogatepass")):
            self._entry(0, 0, Flag.MARK, piece)

    def _entry(self, offset: int, length: int, flags: int, mark: bytes = b"") -> None:
        header = ENTRY.pack(offset // SECTOR_BYTES, length // SECTOR_BYTES, flags, len(mark))
        self.file.write((header + mark).ljust(SECTOR_BYTES, b"\0"))
        self.count += 1


def _events(log: Log) -> Iterator[tuple[str, int]]:
    """All events in order: what happened, and the number of the request or mark."""
    requests = log.requests
    kinds = np.zeros(log.event_count, np.uint8)
    numbers = np.zeros(log.event_count, np.int64)
    every = np.arange(len(requests))
    numbers[requests.submitted_at] = every
    done = requests.completed_at < log.event_count
    kinds[requests.completed_at[done]] = 1
    numbers[requests.completed_at[done]] = every[done]
    positions = [mark.position for mark in log.marks]
    kinds[positions] = 2
    numbers[positions] = np.arange(len(positions))
    names = ("submit", "complete", "mark")
    for position in range(log.event_count):
        yield names[kinds[position]], int(numbers[position])


def _without(extent: tuple[int, int], hole: tuple[int, int]) -> list[tuple[int, int]]:
    """What is left of a range of bytes without another one."""
    pieces = [(extent[0], min(extent[1], hole[0])), (max(extent[0], hole[1]), extent[1])]
    return [(start, end) for start, end in pieces if start < end]

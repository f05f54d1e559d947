"""The format of the kernel's own recorder, dm-log-writes: recordings made there, and ours for there.

Source of all facts: Documentation/admin-guide/device-mapper/log-writes.rst and
drivers/md/dm-log-writes.c of Linux. A log is a superblock and then the entries, each of one sector
(of the recorded device) and followed by the sectors that were written. The kernel logs in order
of completion: a write that is neither FUA nor followed by a FLUSH is held back until the next FLUSH
that was submitted after its completion has completed, and is then put before that FLUSH's entry. A
FUA write is logged when it completes, a mark when it is made. Discards have no data.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntFlag
from pathlib import Path
from typing import BinaryIO

import numpy as np

from crashsim.disk.log import Log
from crashsim.disk.log_writer import (
    DISK_FULL_ERRNOS,
    LogWriter,
    RecordingDiskFull,
    RecordingFailed,
)
from crashsim.disk.request import SECTOR_BYTES, Operation, Request
from crashsim.errors import UsageError

_MAGIC = 0x6A736677736872
_VERSION = 1
_SUPERBLOCK = struct.Struct("<QQQI")
"""Magic, version, number of entries, bytes of a sector."""
_ENTRY = struct.Struct("<QQQQ")
"""First sector, number of sectors, flags, length of the mark's text."""
_MAXIMUM_SECTOR_BYTES = 1 << 16
_MARK_BYTES = SECTOR_BYTES - _ENTRY.size - 1
"""The longest mark that fits beside its entry; the kernel keeps a byte for a zero."""
_PART = b"crashsim-part:"
"""Begins a mark that goes on in the next one: our promises are longer than the kernel's marks."""
_PIECE_BYTES = 4 << 20
_DISCARD_PIECE_BYTES = 1 << 30


class DmLogDamaged(UsageError):
    """A file is no log of dm-log-writes, or is cut off, or was taken from a larger device."""


class _Flag(IntFlag):
    FLUSH = 1
    FUA = 2
    DISCARD = 4
    MARK = 8


def import_dm_log(source: Path, directory: Path, size_bytes: int) -> None:
    """Turn a log of dm-log-writes into a log of ours, in the new directory `directory`.

    :param size_bytes: the size of the recorded device; the kernel's log does not hold it.

    Every entry becomes a request that arrives and ends before the next one does. So a write is
    durable once a FLUSH entry behind it has ended, or at once if it was FUA: no earlier than the
    kernel's log itself says. What the kernel's log does not say is lost: that a write had already
    been in the cache at an earlier point of time. Fewer crash states result, and none that could
    not have been. Likewise a mark may stand before writes that had been completed, but not
    flushed, when it was made; those may be lost, so all that may follow from the mark still does.
    Where a FUA write overlaps an older write that was not flushed yet, the kernel logs the older
    one last, and so does its replay and do we.

    Raises DmLogDamaged, and what LogWriter raises.
    """
    with _Reader.open(source, size_bytes) as reader, LogWriter(directory, size_bytes) as writer:
        partial = b""
        for entry in reader.entries():
            if entry.flags & _Flag.MARK:
                is_partial = entry.mark.startswith(_PART)
                partial += entry.mark.removeprefix(_PART)
                if not is_partial:
                    writer.mark(partial.decode("utf-8", "surrogateescape"))
                    partial = b""
                continue
            # A flush that carries data is two: it does not cover its own data.
            if entry.flags & _Flag.FLUSH:
                writer.complete(writer.submit(Request(Operation.FLUSH)))
            for request in reader.requests(entry):
                writer.complete(writer.submit(request))


def export_dm_log(log: Log, target: Path) -> None:
    """Write a log of ours as dm-log-writes would have, to the new file `target`.

    Writes are put in order of their durability, not of their arrival. Where a write overlaps one
    that came later but became durable sooner, what overlaps is left out: replayed in order, the
    log gives our final image, and at each mark and FLUSH what is before it is what was durable.
    Writes that failed or did not end, and WRITE_ZEROES as a write of zeroes, are in it, too.

    Raises RecordingDiskFull and RecordingFailed; UsageError if `target` exists.
    """
    try:
        with target.open("xb") as file:
            _Writer(file, log).write()
    except FileExistsError as error:
        raise UsageError(f"{target} exists already: choose another file") from error
    except OSError as error:
        kind = RecordingDiskFull if error.errno in DISK_FULL_ERRNOS else RecordingFailed
        raise kind(f"cannot write {target}: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of the kernel's log; `place` is where its data is in the file."""

    offset_bytes: int
    length_bytes: int
    flags: int
    mark: bytes
    place: int


class _Reader:
    """Reads a log of dm-log-writes, and believes none of it unchecked."""

    def __init__(self, file: BinaryIO, path: Path, size_bytes: int) -> None:
        self._file = file
        self._path = path
        self._size_bytes = size_bytes
        header = self._read(0, _SUPERBLOCK.size)
        magic, version, self._count, self._sector_bytes = _SUPERBLOCK.unpack(header)
        if magic != _MAGIC or version != _VERSION:
            raise DmLogDamaged(f"{path}: no log of dm-log-writes, version {_VERSION}")
        sector = self._sector_bytes
        if not SECTOR_BYTES <= sector <= _MAXIMUM_SECTOR_BYTES or sector & (sector - 1):
            raise DmLogDamaged(f"{path}: impossible sector size {sector}")

    @classmethod
    def open(cls, path: Path, size_bytes: int) -> "_Reader":
        try:
            file = path.open("rb")
        except OSError as error:
            raise DmLogDamaged(f"{path}: cannot be read: {error.strerror}") from error
        try:
            return cls(file, path, size_bytes)
        except BaseException:
            file.close()
            raise

    def entries(self) -> Iterator[_Entry]:
        place = self._sector_bytes
        for number in range(self._count):
            content = self._read(place, self._sector_bytes)
            first, sectors, flags, mark_bytes = _ENTRY.unpack_from(content)
            place += self._sector_bytes
            mark = b""
            if flags & _Flag.MARK:
                if mark_bytes > self._sector_bytes - _ENTRY.size:
                    raise self._damaged(number, "its mark is too long")
                mark = content[_ENTRY.size : _ENTRY.size + mark_bytes]
            offset, length = first * self._sector_bytes, sectors * self._sector_bytes
            if offset + length > self._size_bytes:
                raise self._damaged(
                    number, f"it is outside of a device of {self._size_bytes} bytes"
                )
            yield _Entry(offset, length, flags, mark, place)
            if not flags & _Flag.DISCARD:
                place += length

    def requests(self, entry: _Entry) -> Iterator[Request]:
        """What an entry asks for, in pieces: a large write may be torn anywhere, anyway."""
        fua = bool(entry.flags & _Flag.FUA)
        is_discard = bool(entry.flags & _Flag.DISCARD)
        piece = _DISCARD_PIECE_BYTES if is_discard else _PIECE_BYTES
        for start in range(0, entry.length_bytes, piece):
            length = min(piece, entry.length_bytes - start)
            if is_discard:
                yield Request(Operation.TRIM, entry.offset_bytes + start, length, fua)
            else:
                data = self._read(entry.place + start, length)
                yield Request(Operation.WRITE, entry.offset_bytes + start, length, fua, data)

    def _read(self, place: int, length: int) -> bytes:
        data = os.pread(self._file.fileno(), length, place)
        if len(data) != length:
            raise DmLogDamaged(f"{self._path}: cut off at byte {place + len(data)}")
        return data

    def _damaged(self, number: int, what: str) -> DmLogDamaged:
        return DmLogDamaged(f"{self._path}: entry {number} is damaged: {what}")

    def __enter__(self) -> "_Reader":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@dataclass
class _Writer:
    """Puts a log's requests in the order in which the kernel would have logged them."""

    file: BinaryIO
    log: Log
    count: int = 0
    unflushed: list[int] = field(default_factory=list)
    covered: dict[int, list[int]] = field(default_factory=dict)
    ahead: set[int] = field(default_factory=set)
    first_missing: int = 0

    def write(self) -> None:
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
        self.file.write(_SUPERBLOCK.pack(_MAGIC, _VERSION, self.count, SECTOR_BYTES))

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
                self._emit(number, _Flag.FUA)
            else:
                self.unflushed.append(number)
            return
        # What an earlier flush covers, this one does, too, even if the earlier one is not done.
        flushes = [flush for flush in self.covered if flush <= number]
        for write in sorted(write for flush in flushes for write in self.covered.pop(flush)):
            self._emit(write, 0)
        self._entry(0, 0, _Flag.FLUSH)

    def _emit(self, number: int, flags: int) -> None:
        """Write a request's entries, but for what a later request that is written already covers."""
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
            self._entry(start, end - start, flags | (_Flag.DISCARD if is_trim else 0))
            if requests.operation[number] == Operation.WRITE:
                place = int(requests.data_offset[number]) + start - offset
                self.file.write(self.log.read_data(place, end - start))
            elif not is_trim:
                self.file.seek(end - start, os.SEEK_CUR)
        self._note_written(number)

    def _note_written(self, number: int) -> None:
        self.ahead.add(number)
        is_flush = self.log.requests.operation
        while self.first_missing in self.ahead or (
            self.first_missing < len(is_flush) and is_flush[self.first_missing] == Operation.FLUSH
        ):
            self.ahead.discard(self.first_missing)
            self.first_missing += 1

    def _mark(self, text: str) -> None:
        data = text.encode("utf-8", "surrogatepass")
        part = _MARK_BYTES - len(_PART)
        while len(data) > _MARK_BYTES:
            self._entry(0, 0, _Flag.MARK, _PART + data[:part])
            data = data[part:]
        self._entry(0, 0, _Flag.MARK, data)

    def _entry(self, offset: int, length: int, flags: int, mark: bytes = b"") -> None:
        header = _ENTRY.pack(offset // SECTOR_BYTES, length // SECTOR_BYTES, flags, len(mark))
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
    for kind, number in zip(kinds.tolist(), numbers.tolist(), strict=True):
        yield names[kind], number


def _without(extent: tuple[int, int], hole: tuple[int, int]) -> list[tuple[int, int]]:
    """What is left of a range of bytes without another one."""
    pieces = [(extent[0], min(extent[1], hole[0])), (max(extent[0], hole[1]), extent[1])]
    return [(start, end) for start, end in pieces if start < end]

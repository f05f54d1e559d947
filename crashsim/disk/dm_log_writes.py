"""Reading logs of dm-log-writes, the kernel's own recorder.

Source of all facts: Documentation/admin-guide/device-mapper/log-writes.rst and
drivers/md/dm-log-writes.c of Linux. A log is a superblock and then the entries, each of one sector
(of the recorded device) and followed by the sectors that were written. The kernel logs in order
of completion: a write that is neither FUA nor followed by a FLUSH is held back until the next FLUSH
that was submitted after its completion has completed, and is then put before that FLUSH's entry. A
FUA write is logged when it completes, a mark when it is made. Discards have no data.

Writing them is in `dm_log_export`.
"""

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntFlag
from pathlib import Path
from typing import BinaryIO

from crashsim.disk.log_writer import LogWriter
from crashsim.disk.request import SECTOR_BYTES, Operation, Request
from crashsim.errors import UsageError

MAGIC = 0x6A736677736872
VERSION = 1
SUPERBLOCK = struct.Struct("<QQQI")
"""Magic, version, number of entries, bytes of a sector."""
ENTRY = struct.Struct("<QQQQ")
"""First sector, number of sectors, flags, length of the mark's text."""
_MAXIMUM_SECTOR_BYTES = 1 << 16
MARK_BYTES = SECTOR_BYTES - ENTRY.size - 1
"""The longest mark that fits beside its entry; the kernel keeps a byte for a zero."""
PART = b"crashsim-part:"
"""Begins a mark that goes on in the next one: our promises are longer than the kernel's marks."""
END = b"dm-log-writes-end"
"""The kernel's own mark, when the device is removed: nobody's promise."""
_CONTINUATION_BYTES_MAX = 3
"""Of one character in UTF-8; each begins with the bits 10."""
_PIECE_BYTES = 4 << 20
_DISCARD_PIECE_BYTES = 1 << 30


class DmLogDamaged(UsageError):
    """A file is no log of dm-log-writes, or is cut off, or was taken from a larger device."""


class Flag(IntFlag):
    """What an entry is; its other flags say nothing about durability."""

    FLUSH = 1
    FUA = 2
    DISCARD = 4
    MARK = 8


def mark_pieces(text: bytes) -> list[bytes]:
    """A mark as one or more of the kernel's, none of them cut within a character of UTF-8."""
    pieces = []
    while len(text) > MARK_BYTES or text.startswith(PART):
        length = min(len(text) - 1, MARK_BYTES - len(PART))  # the last piece is not empty
        for _ in range(_CONTINUATION_BYTES_MAX):
            if length < len(text) and text[length] & 0xC0 == 0x80:
                length -= 1
        pieces.append(PART + text[:length])
        text = text[length:]
    return [*pieces, text]


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
    When anything happened the kernel does not tell: all times of the log are 0.

    Raises DmLogDamaged, and what LogWriter raises.
    """
    with (
        _Reader.open(source, size_bytes) as reader,
        LogWriter(directory, size_bytes, clock_ns=lambda: 0) as writer,
    ):
        partial = b""
        for entry in reader.entries():
            if entry.flags & Flag.MARK:
                if entry.is_last and entry.mark == END:
                    break
                is_partial = entry.mark.startswith(PART)
                partial += entry.mark.removeprefix(PART)
                if not is_partial:
                    writer.mark(partial.decode("utf-8", "surrogateescape"))
                    partial = b""
                continue
            # A flush that carries data is two: it does not cover its own data.
            if entry.flags & Flag.FLUSH:
                writer.complete(writer.submit(Request(Operation.FLUSH)))
            for request in reader.requests(entry):
                writer.complete(writer.submit(request))


@dataclass(frozen=True, slots=True)
class _Entry:
    """One entry of the kernel's log; `place` is where its data is in the file."""

    offset_bytes: int
    length_bytes: int
    flags: int
    mark: bytes
    place: int
    is_last: bool


class _Reader:
    """Reads a log of dm-log-writes, and believes none of it unchecked."""

    def __init__(self, file: BinaryIO, path: Path, size_bytes: int) -> None:
        self._file = file
        self._path = path
        self._size_bytes = size_bytes
        header = self._read(0, SUPERBLOCK.size)
        magic, version, self._count, self._sector_bytes = SUPERBLOCK.unpack(header)
        if magic != MAGIC or version != VERSION:
            raise DmLogDamaged(f"{path}: no log of dm-log-writes, version {VERSION}")
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
            first, sectors, flags, mark_bytes = ENTRY.unpack_from(content)
            place += self._sector_bytes
            mark = b""
            if flags & Flag.MARK:
                if mark_bytes > self._sector_bytes - ENTRY.size:
                    raise self._damaged(number, "its mark is too long")
                mark = content[ENTRY.size : ENTRY.size + mark_bytes]
            offset, length = first * self._sector_bytes, sectors * self._sector_bytes
            if offset + length > self._size_bytes:
                raise self._damaged(
                    number, f"it is outside of a device of {self._size_bytes} bytes"
                )
            is_last = number == self._count - 1
            yield _Entry(offset, length, flags, mark, place, is_last)
            if not flags & Flag.DISCARD:
                place += length

    def requests(self, entry: _Entry) -> Iterator[Request]:
        """What an entry asks for, in pieces: a large write may be torn anywhere, anyway."""
        fua = bool(entry.flags & Flag.FUA)
        is_discard = bool(entry.flags & Flag.DISCARD)
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

"""Reading and checking a log's files.

A log comes from an untrusted guest or bundle: everything read is checked against the disk's size,
the files' sizes and the order of events before anything else sees it.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from crashsim.disk.log_format import (
    DATA_NAME,
    EVENTS_NAME,
    FLAG_FUA,
    HEADER,
    MAGIC,
    MAXIMUM_DISKS,
    MAXIMUM_ERRNO,
    MAXIMUM_MARK_BYTES,
    NEVER,
    RECORD,
    RECORD_DTYPE,
    VERSION,
    EventKind,
)
from crashsim.disk.log_parts import LogMark, LogParts, empty_requests
from crashsim.disk.request import SECTOR_BYTES, Operation
from crashsim.errors import UsageError

_CHUNK_EVENTS = 1 << 16


class LogDamaged(UsageError):
    """A log's file holds something that no recording writes, or is missing."""


class LogReader:
    """Reads a log's events in chunks, so that little more than the result is in memory."""

    def __init__(self, directory: Path, events: BinaryIO, data: BinaryIO) -> None:
        """Read the log in `directory` by its two files, which stay open."""
        self.directory = directory
        self.path = directory / EVENTS_NAME
        self.events = events
        self.data = data
        self.data_bytes = os.fstat(data.fileno()).st_size
        self.truncated = ""
        self.data_end = 0
        self.submitted = 0
        self.marks: list[LogMark] = []

    def read(self) -> LogParts:
        """Read all. Raises LogDamaged."""
        self.size_bytes, self.disks = self._header()
        self.disk_bytes = self.size_bytes // self.disks
        event_count, request_count = self._count()
        self.requests = empty_requests(request_count)
        for first, chunk in self._chunks(event_count):
            self._place_submits(first, chunk)
            self._place_completes(first, chunk)
            self._place_marks(first, chunk)
        for column in self.requests.__slots__:
            self.requests[column].flags.writeable = False
        marks = tuple(self.marks)
        return LogParts(
            self.size_bytes, event_count, self.requests, marks, self.truncated, self.disks
        )

    def _header(self) -> tuple[int, int]:
        header = self.events.read(HEADER.size)
        if len(header) < HEADER.size:
            raise LogDamaged(f"{self.path}: no log (it ends at byte {len(header)})")
        magic, version, record_bytes, size_bytes, disks = HEADER.unpack(header)
        if magic != MAGIC or record_bytes != RECORD.size or not _is_written(disks):
            raise LogDamaged(f"{self.path}: not a log of crashsim (byte 0)")
        if version != VERSION:
            raise LogDamaged(f"{self.path}: log version {version}; this program reads {VERSION}")
        disks = disks or 1
        if not 0 < size_bytes < NEVER or size_bytes % (disks * SECTOR_BYTES):
            raise LogDamaged(f"{self.path}: impossible disk size {size_bytes} (byte 16)")
        return int(size_bytes), int(disks)

    def _count(self) -> tuple[int, int]:
        """Check every event; how many events and requests there are whose payload is there."""
        body_bytes = os.fstat(self.events.fileno()).st_size - HEADER.size
        event_count, extra_bytes = divmod(body_bytes, RECORD.size)
        if extra_bytes:
            self.truncated = f"the last {extra_bytes} bytes of {EVENTS_NAME} are half an event"
        kept_events = kept_requests = 0
        for first, chunk in self._chunks(event_count):
            ends = self._check_records(first, chunk)
            kept = int(np.searchsorted(ends, self.data_bytes, side="right"))
            kept_events += kept
            kept_requests += int((chunk["kind"][:kept] == EventKind.SUBMIT).sum())
        if kept_events < event_count:
            self.truncated = (
                f"{DATA_NAME} ends at byte {self.data_bytes}, so the last "
                f"{event_count - kept_events} events are left out"
            )
        return kept_events, kept_requests

    def _chunks(self, event_count: int) -> Iterator[tuple[int, npt.NDArray[np.void]]]:
        self.events.seek(HEADER.size)
        for first in range(0, event_count, _CHUNK_EVENTS):
            wanted = min(_CHUNK_EVENTS, event_count - first)
            body = self.events.read(wanted * RECORD.size)
            if len(body) != wanted * RECORD.size:
                raise LogDamaged(f"{self.path}: became shorter while it was read")
            yield first, np.frombuffer(body, RECORD_DTYPE)

    def _fail(self, first: int, wrong: npt.NDArray[np.bool_], what: str) -> None:
        """Raise LogDamaged for the first record of a chunk that is wrong, if any."""
        if wrong.any():
            position = first + int(np.argmax(wrong))
            offset = HEADER.size + position * RECORD.size
            raise LogDamaged(f"{self.path}: {what} (event {position}, byte {offset})")

    def _check_records(self, first: int, chunk: npt.NDArray[np.void]) -> npt.NDArray[np.uint64]:
        """Check each event on its own and where its payload is; the payloads' ends."""
        kind, operation, small, place = (
            chunk[name] for name in ("kind", "operation", "small", "place")
        )
        is_submit = kind == EventKind.SUBMIT
        is_flush = operation == Operation.FLUSH
        self._fail(first, (kind < EventKind.SUBMIT) | (kind > EventKind.MARK), "unknown event")
        self._fail(first, chunk["time_ns"] >= NEVER, "impossible time")
        unknown = (operation < Operation.WRITE) | (operation > Operation.FLUSH)
        unknown = np.where(is_submit, unknown | (chunk["flags"] > FLAG_FUA), False)
        self._fail(first, unknown | (chunk["zero"] != 0), "unknown operation or flag")
        # In this order nothing overflows: small has 32 bits, and place is bounded by the size.
        length = small.astype(np.uint64)
        outside = (length > self.size_bytes) | (
            place > self.size_bytes - np.minimum(length, np.uint64(self.size_bytes))
        )
        unaligned = (small % SECTOR_BYTES != 0) | (place % SECTOR_BYTES != 0)
        begin = place % np.uint64(self.disk_bytes)
        astray = np.where(is_flush, begin != 0, begin + length > self.disk_bytes)
        astray |= is_flush & (place >= self.size_bytes)
        bad_extent = outside | unaligned | (is_flush != (small == 0)) | astray
        self._fail(first, is_submit & bad_extent, "request outside of the disk or not aligned")
        lengths = np.where(_has_data(chunk), _whole_sectors(length), 0)
        ends = self.data_end + np.cumsum(lengths, dtype=np.uint64)
        self._fail(first, chunk["data_offset"] != ends - lengths, "payload out of place")
        self.data_end = int(ends[-1])
        is_mark = kind == EventKind.MARK
        self._fail(first, is_mark & (small > MAXIMUM_MARK_BYTES), "mark too long")
        return ends

    def _place_submits(self, first: int, chunk: npt.NDArray[np.void]) -> None:
        where = np.flatnonzero(chunk["kind"] == EventKind.SUBMIT)
        submits = chunk[where]
        numbers = slice(self.submitted, self.submitted + len(where))
        self.requests.operation[numbers] = submits["operation"]
        self.requests.fua[numbers] = submits["flags"] & FLAG_FUA
        self.requests.offset_bytes[numbers] = submits["place"]
        self.requests.length_bytes[numbers] = submits["small"]
        self.requests.data_offset[numbers] = submits["data_offset"]
        self.requests.submitted_at[numbers] = where + first
        self.requests.submitted_ns[numbers] = submits["time_ns"]
        self.submitted += len(where)

    def _place_completes(self, first: int, chunk: npt.NDArray[np.void]) -> None:
        is_complete = chunk["kind"] == EventKind.COMPLETE
        wrong = is_complete & (
            (chunk["place"] >= self.submitted) | (chunk["small"] > MAXIMUM_ERRNO)
        )
        self._fail(first, wrong, "end of an unknown request, or an impossible error")
        where = np.flatnonzero(is_complete)
        completes = chunk[where]
        numbers = completes["place"].astype(np.int64)
        early = np.zeros(len(chunk), np.bool_)
        early[where] = self.requests.submitted_at[numbers] > where + first
        early[where] |= self.requests.completed_at[numbers] != NEVER
        repeated = np.ones(len(where), np.bool_)
        repeated[np.unique(numbers, return_index=True)[1]] = False
        early[where] |= repeated
        self._fail(first, early, "request ends twice or before its start")
        self.requests.completed_at[numbers] = where + first
        self.requests.completed_ns[numbers] = completes["time_ns"]
        self.requests.error[numbers] = completes["small"]

    def _place_marks(self, first: int, chunk: npt.NDArray[np.void]) -> None:
        for index in np.flatnonzero(chunk["kind"] == EventKind.MARK):
            record = chunk[index]
            position = first + int(index)
            data = os.pread(self.data.fileno(), int(record["small"]), int(record["data_offset"]))
            try:
                text = data.decode("utf-8", "surrogatepass")
            except UnicodeDecodeError as error:
                raise LogDamaged(
                    f"{self.directory / DATA_NAME}: mark that is no UTF-8 "
                    f"(event {position}, byte {int(record['data_offset'])})"
                ) from error
            self.marks.append(LogMark(position, text, int(record["time_ns"])))


def _is_written(disks: int) -> bool:
    """One is written as 0."""
    return disks == 0 or 1 < disks <= MAXIMUM_DISKS


def _whole_sectors(length: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    return (
        (length + np.uint64(SECTOR_BYTES - 1)) // np.uint64(SECTOR_BYTES) * np.uint64(SECTOR_BYTES)
    )


def _has_data(chunk: npt.NDArray[np.void]) -> npt.NDArray[np.bool_]:
    is_write = (chunk["kind"] == EventKind.SUBMIT) & (chunk["operation"] == Operation.WRITE)
    result: npt.NDArray[np.bool_] = is_write | (chunk["kind"] == EventKind.MARK)
    return result


def open_log_file(path: Path) -> BinaryIO:
    """Open one of a log's files. Raises LogDamaged."""
    try:
        return path.open("rb")
    except OSError as error:
        raise LogDamaged(f"{path}: cannot be read: {error.strerror}") from error

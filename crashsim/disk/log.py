"""A log that can be asked: its requests as numpy columns, its marks, its payloads."""

import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import numpy as np

from crashsim.disk.log_format import DATA_NAME, EVENTS_NAME, NEVER
from crashsim.disk.log_parts import LogMark, Requests
from crashsim.disk.log_reader import LogDamaged, LogReader, open_log_file
from crashsim.disk.log_writer import LogWriter, RecordingDiskFull, RecordingFailed
from crashsim.disk.request import Operation, Request
from crashsim.errors import InfrastructureError

__all__ = [
    "NEVER",
    "Log",
    "LogDamaged",
    "LogMark",
    "LogUnreadable",
    "LogWriter",
    "RecordingDiskFull",
    "RecordingFailed",
    "Requests",
]


class LogUnreadable(InfrastructureError):
    """The host failed to read a log that it could open."""


@dataclass(frozen=True, slots=True)
class Log:
    """A log that was read and found consistent. Also a context manager that closes it.

    :ivar size_bytes: the disk's size; of several, that of all together (see `disks`).
    :ivar event_count: positions are [0, event_count); a cut may be event_count, too.
    :ivar truncated: what is missing at the end, in words; empty for a log that is whole. A log
        whose recording was killed may lack a part of its last event.
    :ivar disks: of how many disks the requests are. They are of one size and lie one after the
        other: addresses count through them, and a FLUSH has the address at which its disk begins.
    """

    directory: Path
    size_bytes: int
    event_count: int
    requests: Requests
    marks: tuple[LogMark, ...]
    truncated: str
    disks: int
    _data: BinaryIO

    @classmethod
    def open(cls, directory: Path) -> "Log":
        """Read and check a log. Raises LogDamaged with the file and the offset in it."""
        data = open_log_file(directory / DATA_NAME)
        try:
            with open_log_file(directory / EVENTS_NAME) as events:
                return cls(directory, *LogReader(directory, events, data).read(), data)
        except BaseException:
            data.close()
            raise

    @property
    def disk_bytes(self) -> int:
        """The size of each disk."""
        return self.size_bytes // self.disks

    def payload(self, number: int) -> bytes:
        """What WRITE `number` wrote; empty for other requests. Raises as `read_data`."""
        if self.requests.operation[number] != Operation.WRITE:
            return b""
        return self.read_data(
            int(self.requests.data_offset[number]), int(self.requests.length_bytes[number])
        )

    def read_data(self, data_offset: int, length_bytes: int) -> bytes:
        """Bytes of data.bin. Raises LogDamaged if the file became shorter, LogUnreadable."""
        data = bytearray(length_bytes)
        self.read_data_into(data_offset, memoryview(data))
        return bytes(data)

    def read_data_into(self, data_offset: int, buffer: memoryview) -> None:
        """Like `read_data`, into the caller's memory.

        Never raises OSError, which a crash disk would hand to the guest as its own disk's error.
        """
        try:
            count = os.preadv(self._data.fileno(), [buffer], data_offset)
        except OSError as error:
            path = self.directory / DATA_NAME
            raise LogUnreadable(f"{path}: cannot be read: {error.strerror}") from error
        if count != len(buffer):
            path = self.directory / DATA_NAME
            raise LogDamaged(f"{path}: cut off at byte {data_offset + count}")

    def request(self, number: int) -> Request:
        """Request `number` as it was submitted, with its payload."""
        requests = self.requests
        return Request(
            Operation(int(requests.operation[number])),
            int(requests.offset_bytes[number]),
            int(requests.length_bytes[number]),
            bool(requests.fua[number]),
            self.payload(number),
        )

    def submitted_before(self, cut: int) -> int:
        """How many requests were submitted before `cut`: those are numbered [0, result)."""
        return int(np.searchsorted(self.requests.submitted_at, cut))

    def marks_before(self, cut: int) -> tuple[LogMark, ...]:
        """The marks made before `cut`, oldest first."""
        return tuple(mark for mark in self.marks if mark.position < cut)

    def close(self) -> None:
        """Close its file; payloads cannot be read any more."""
        self._data.close()

    def __enter__(self) -> Self:
        """The log itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

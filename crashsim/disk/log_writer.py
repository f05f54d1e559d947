"""Writing the log: append-only, and on disk before each call returns."""

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from crashsim.disk.log_format import (
    DATA_NAME,
    EVENTS_NAME,
    FLAG_FUA,
    HEADER,
    MAGIC,
    MAXIMUM_DATA_BYTES,
    MAXIMUM_DISKS,
    MAXIMUM_ERRNO,
    MAXIMUM_LENGTH_BYTES,
    MAXIMUM_MARK_BYTES,
    RECORD,
    VERSION,
    EventKind,
)
from crashsim.disk.request import SECTOR_BYTES, Operation, Request
from crashsim.errors import InfrastructureError, UsageError

DISK_FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


class RecordingDiskFull(InfrastructureError):
    """The host has no room left for the recording; what was recorded before stays readable."""


class RecordingFailed(InfrastructureError):
    """The host could not write the recording for another reason than a full disk."""


class RecordingExists(UsageError):
    """The directory holds a log already, and a log is never overwritten."""


class LogWriter:
    """Appends events to a new log. Every method may be called from any thread.

    Each call's bytes are with the operating system when it returns, the payload before the event
    that names it: whatever ends this process, at most the call under way is lost.

    :ivar size_bytes: the disk's size; of several, that of all together (see `Log.disks`).
    """

    def __init__(
        self,
        directory: Path,
        size_bytes: int,
        disks: int = 1,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Start a log in `directory`, which is made if it does not exist.

        :param disks: how many disks of one size there are, one after the other.
        :param clock_ns: when an event happens; always 0 where that is not known.

        Raises RecordingExists, and UsageError for a size that is no positive multiple of 512.
        """
        if not 0 < disks <= MAXIMUM_DISKS:
            raise UsageError(f"{disks} disks cannot be recorded: at most {MAXIMUM_DISKS}")
        if size_bytes <= 0 or size_bytes % (disks * SECTOR_BYTES):
            raise UsageError(
                f"a disk of {size_bytes} bytes cannot be recorded: give a multiple of 512"
            )
        self.size_bytes = size_bytes
        self._disk_bytes = size_bytes // disks
        self.directory = directory
        self._clock_ns = clock_ns
        directory.mkdir(parents=True, exist_ok=True)
        self._lock = threading.Lock()
        self._completed = bytearray()
        self._event_count = 0
        self._data_end = 0
        self._failure: InfrastructureError | None = None
        self._closed = False
        self._data = _create(directory / DATA_NAME)
        try:
            self._events = _create(directory / EVENTS_NAME)
        except BaseException:
            os.close(self._data)
            raise
        self._append_all(self._events, _header(size_bytes, disks))

    @property
    def event_count(self) -> int:
        """How many events there are: the position that the next one gets."""
        return self._event_count

    @property
    def request_count(self) -> int:
        """How many requests were submitted: the number that the next one gets."""
        return len(self._completed)

    def submit(self, request: Request) -> int:
        """Append the arrival of a request; its number.

        Raises RecordingDiskFull or RecordingFailed, and ValueError for a request that does not fit
        the disk (the NBD server answers those itself).
        """
        return self.append(request)[0]

    def append(self, request: Request) -> tuple[int, int]:
        """`submit`, and where in data.bin the payload is: for `read_data_into`."""
        self._check(request)
        flags = FLAG_FUA if request.fua else 0
        with self._lock:
            number, data_offset = len(self._completed), self._data_end
            self._append_event(
                EventKind.SUBMIT,
                request.operation,
                flags,
                request.length_bytes,
                request.offset_bytes,
                request.data,
            )
            self._completed.append(0)
            return number, data_offset

    def complete(self, number: int, error: int = 0) -> None:
        """Append the end of a request: its reply is about to be sent.

        :param number: what `submit` returned.
        :param error: 0, or the errno of a request that failed.
        """
        if not 0 <= error <= MAXIMUM_ERRNO:
            raise ValueError(f"{error} is no errno")
        with self._lock:
            if self._completed[number]:
                raise ValueError(f"request {number} completed twice")
            self._append_event(EventKind.COMPLETE, 0, 0, error, number, b"")
            self._completed[number] = 1

    def mark(self, text: str) -> int:
        """Append a mark; its position. Raises UsageError for a text of more than 1 MiB."""
        data = text.encode("utf-8", "surrogatepass")
        if len(data) > MAXIMUM_MARK_BYTES:
            raise UsageError(f"a mark of {len(data)} bytes is too long: at most 1 MiB")
        with self._lock:
            padding = bytes(-len(data) % SECTOR_BYTES)
            self._append_event(EventKind.MARK, 0, 0, len(data), 0, data + padding)
            return self._event_count - 1

    def read_data_into(self, data_offset: int, buffer: memoryview) -> None:
        """Read back payload bytes. Raises RecordingFailed."""
        try:
            count = os.preadv(self._data, [buffer], data_offset)
        except OSError as error:
            raise _failure(self.directory, error) from error
        if count != len(buffer):
            raise RecordingFailed(f"{self.directory / DATA_NAME} was cut off while recording")

    def close(self) -> None:
        """End the log. Idempotent; it can be read before, too."""
        with self._lock:
            if not self._closed:
                self._closed = True
                os.close(self._events)
                os.close(self._data)

    def __enter__(self) -> Self:
        """The writer itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def _check(self, request: Request) -> None:
        if request.operation is Operation.READ:
            raise ValueError("reads are not logged")
        if request.operation is Operation.FLUSH:
            fits = (
                request.length_bytes == 0
                and 0 <= request.offset_bytes < self.size_bytes
                and request.offset_bytes % self._disk_bytes == 0
            )
        else:
            fits = (
                request.offset_bytes >= 0
                and 0 < request.length_bytes <= MAXIMUM_LENGTH_BYTES
                and (request.offset_bytes | request.length_bytes) % SECTOR_BYTES == 0
                and request.offset_bytes + request.length_bytes <= self.size_bytes
                and request.offset_bytes % self._disk_bytes + request.length_bytes
                <= self._disk_bytes
            )
        data_bytes = request.length_bytes if request.operation is Operation.WRITE else 0
        if not fits or len(request.data) != data_bytes:
            raise ValueError(
                f"{request.operation.name} of {request.length_bytes} bytes at "
                f"{request.offset_bytes} does not fit a disk of {self.size_bytes} bytes"
            )

    def _append_event(
        self, kind: EventKind, operation: int, flags: int, small: int, place: int, data: bytes
    ) -> None:
        if self._failure is not None:
            raise self._failure
        if self._closed:
            raise ValueError("the log is closed")
        if self._data_end + len(data) > MAXIMUM_DATA_BYTES:
            raise RecordingDiskFull(f"{self.directory}: a recording holds at most 1 TiB")
        record = RECORD.pack(kind, operation, flags, small, place, self._data_end, self._clock_ns())
        if data:
            self._append_all(self._data, data)
        self._append_all(self._events, record)
        self._data_end += len(data)
        self._event_count += 1

    def _append_all(self, file: int, data: bytes) -> None:
        """Write at the end of a file; after a failure everything that follows is refused.

        What was written of a half event stays: a reader leaves it out.
        """
        try:
            written = os.write(file, data)
            while written < len(data):
                written += os.write(file, memoryview(data)[written:])
        except OSError as error:
            self._failure = _failure(self.directory, error)
            raise self._failure from error


def _header(size_bytes: int, disks: int) -> bytes:
    # 0 for one: what was written here before there could be more.
    return HEADER.pack(MAGIC, VERSION, RECORD.size, size_bytes, 0 if disks == 1 else disks)


def _create(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
    except FileExistsError as error:
        raise RecordingExists(f"{path} exists already: choose another directory") from error
    except OSError as error:
        raise _failure(path, error) from error


def _failure(path: Path, error: OSError) -> InfrastructureError:
    if error.errno in DISK_FULL_ERRNOS:
        return RecordingDiskFull(
            f"no room left for the recording in {path} ({error.strerror}): free some space or "
            "record elsewhere; what was recorded up to now stays readable"
        )
    return RecordingFailed(f"cannot write the recording in {path}: {error.strerror}")

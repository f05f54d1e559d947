"""The crash disk while it records."""

from pathlib import Path
from typing import NamedTuple

from crashsim.disk.base_image import BaseImage
from crashsim.disk.contents import Contents
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.request import SECTOR_BYTES, Operation, Request
from crashsim.disk.scratch import ScratchFile

_READ_TICKET = -1


class RecordingDisk:
    """A Disk that logs everything but reads, and serves reads from the log.

    A write's data shows once its reply is due and it did not fail; in order of arrival, so where
    two in flight overlap, the one submitted last wins: as in a crash state.
    """

    def __init__(self, writer: LogWriter, size_bytes: int, base: Path | None = None) -> None:
        """Record into `writer`, whose disk has the same size.

        :param base: an image that the disk starts with; without it the disk is all zeroes.
            Raises BaseUnreadable.
        """
        if size_bytes != writer.size_bytes:
            raise ValueError(f"the log is for a disk of {writer.size_bytes} bytes")
        self.size_bytes = size_bytes
        self._writer = writer
        self._base = None if base is None else BaseImage(base, size_bytes)
        self._contents = Contents(writer, self._base)
        self._in_flight: dict[int, _Change] = {}

    def arrived(self, request: Request) -> int:
        """Log the arrival; the ticket is the request's number."""
        if request.operation is Operation.READ:
            return _READ_TICKET
        number, data_offset = self._writer.append(request)
        if request.changes_media:
            first = request.offset_bytes // SECTOR_BYTES
            end = first + request.length_bytes // SECTOR_BYTES
            has_data = request.operation is Operation.WRITE
            self._in_flight[number] = _Change(first, end, data_offset if has_data else None)
        return number

    def perform(self, request: Request) -> bytes:
        """The data of a READ; writes are in the log already."""
        if request.operation is not Operation.READ:
            return b""
        first = request.offset_bytes // SECTOR_BYTES
        return self._contents.read(first, first + request.length_bytes // SECTOR_BYTES)

    def replied(self, ticket: int, error: int) -> None:
        """Log the reply; what was written can be read from now on."""
        if ticket == _READ_TICKET:
            return
        change = self._in_flight.pop(ticket, None)
        if change is not None and not error:
            if change.data_offset is None:
                self._contents.zero(change.first_sector, change.end_sector)
            else:
                self._contents.set(change.first_sector, change.end_sector, change.data_offset)
        self._writer.complete(ticket, error)

    def close(self) -> None:
        """Close the base image; the log is its owner's to close."""
        if self._base is not None:
            self._base.close()


class _Change(NamedTuple):
    """What a request in flight will change; `data_offset` is None if it makes zeroes."""

    first_sector: int
    end_sector: int
    data_offset: int | None


class MemoryDisk:
    """A Disk that logs nothing and starts as zeroes: for slots that are idle or only scratch."""

    def __init__(self, size_bytes: int) -> None:
        """Make one of this size; it takes up room for what is written only."""
        self.size_bytes = size_bytes
        self._contents = ScratchFile(size_bytes)

    def arrived(self, request: Request) -> int:
        """Nothing to note."""
        return _READ_TICKET

    def perform(self, request: Request) -> bytes:
        """Change or read the contents."""
        return perform(self._contents, request)

    def replied(self, ticket: int, error: int) -> None:
        """Nothing to note."""

    def close(self) -> None:
        """Give back its room."""
        self._contents.close()


class NullDisk:
    """A Disk that reads as zeroes, whatever was written to it."""

    def __init__(self, size_bytes: int) -> None:
        """Make one of this size."""
        self.size_bytes = size_bytes

    def arrived(self, request: Request) -> int:
        """Nothing to note."""
        return _READ_TICKET

    def perform(self, request: Request) -> bytes:
        """Zeroes for a READ."""
        return bytes(request.length_bytes) if request.operation is Operation.READ else b""

    def replied(self, ticket: int, error: int) -> None:
        """Nothing to note."""


def perform(contents: ScratchFile, request: Request) -> bytes:
    """Do what a request asks on plain contents. A TRIM makes zeroes, as the crash states do."""
    if request.operation is Operation.READ:
        return contents.read(request.offset_bytes, request.length_bytes)
    if request.operation is Operation.WRITE:
        contents.write(request.offset_bytes, request.data)
    elif request.operation in (Operation.TRIM, Operation.WRITE_ZEROES):
        contents.zero(request.offset_bytes, request.length_bytes)
    return b""

"""The crash disk while it records."""

from pathlib import Path

from crashsim.disk.log_writer import LogWriter
from crashsim.disk.request import Operation, Request
from crashsim.disk.scratch import ScratchFile

_READ_TICKET = -1


class RecordingDisk:
    """A Disk that logs everything but reads and serves reads from a working copy.

    Requests are performed in the order of their arrival, so where two in flight overlap, the one
    submitted last wins: as in a crash state.
    """

    def __init__(self, writer: LogWriter, size_bytes: int, base: Path | None = None) -> None:
        """Record into `writer`, whose disk has the same size.

        :param base: an image that the disk starts with; without it the disk is all zeroes.
        """
        if size_bytes != writer.size_bytes:
            raise ValueError(f"the log is for a disk of {writer.size_bytes} bytes")
        self.size_bytes = size_bytes
        self._writer = writer
        self._contents = ScratchFile(size_bytes)
        if base is not None:
            self._contents.fill_from(base)

    def arrived(self, request: Request) -> int:
        """Log the arrival; the ticket is the request's number."""
        if request.operation is Operation.READ:
            return _READ_TICKET
        return self._writer.submit(request)

    def perform(self, request: Request) -> bytes:
        """Change or read the working copy."""
        return perform(self._contents, request)

    def replied(self, ticket: int, error: int) -> None:
        """Log the reply."""
        if ticket != _READ_TICKET:
            self._writer.complete(ticket, error)

    def close(self) -> None:
        """Give back the working copy's room; the log is its owner's to close."""
        self._contents.close()


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

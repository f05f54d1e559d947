"""One NBD connection in its transmission phase: requests in, replies out.

Where the durability rule meets the wire. Everything that has come in is noted (`Disk.arrived`)
before any reply is sent, so that a FLUSH never seems to come after the end of a write that was
still in flight when the guest sent it.
"""

import errno
import socket
from collections import deque
from dataclasses import dataclass

from crashsim.disk.nbd_protocol import (
    MAXIMUM_PAYLOAD_BYTES,
    REQUEST,
    REQUEST_MAGIC,
    SIMPLE_REPLY,
    SIMPLE_REPLY_MAGIC,
    Command,
    CommandFlag,
    NbdProtocolError,
    wire_error,
)
from crashsim.disk.request import SECTOR_BYTES, Operation, Request
from crashsim.disk.server import Disk

_BUFFER_BYTES = MAXIMUM_PAYLOAD_BYTES + (1 << 20)
_MAXIMUM_QUEUED_BYTES = 1 << 30
"""Twice what QEMU's client can have in flight (16 requests of 32 MiB): it never gets there."""
_MAXIMUM_QUEUED_REQUESTS = 4096

_KNOWN_FLAGS = int(CommandFlag.FUA | CommandFlag.NO_HOLE)
_OPERATIONS = {
    Command.READ: Operation.READ,
    Command.WRITE: Operation.WRITE,
    Command.FLUSH: Operation.FLUSH,
    Command.TRIM: Operation.TRIM,
    Command.WRITE_ZEROES: Operation.WRITE_ZEROES,
}


@dataclass(frozen=True, slots=True)
class _Queued:
    """A request that has arrived; `request` is None if it is refused with `error`."""

    cookie: int
    request: Request | None
    ticket: int = 0
    error: int = 0


class Connection:
    """Buffers what a client sends and answers it in order of arrival."""

    def __init__(self, connection: socket.socket, size_bytes: int) -> None:
        """Take over a connection whose handshake is done."""
        self._socket = connection
        self._size_bytes = size_bytes
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._closing = False

    def wait(self) -> bool:
        """Block until there is more to read; False once the client is done or gone."""
        if self._closing:
            return False
        return self._receive(0)

    def serve(self, disk: Disk) -> None:
        """Note, perform and answer everything that has arrived, and what arrives meanwhile."""
        self._note_arrivals(disk)
        while self._queue:
            queued = self._queue.popleft()
            if queued.request is None:
                self._reply(queued.cookie, queued.error, b"")
                continue
            error, data = 0, b""
            try:
                data = disk.perform(queued.request)
            except OSError as failure:
                error = failure.errno or errno.EIO
            self._queued_bytes -= queued.request.length_bytes
            self._note_arrivals(disk)
            disk.replied(queued.ticket, error)
            self._reply(queued.cookie, error, data)

    def _note_arrivals(self, disk: Disk) -> None:
        """Drain the socket without blocking; parse and note every request that is complete."""
        while True:
            while not self._closing and (parsed := self._parse()) is not None:
                cookie, request, error = parsed
                if request is None:
                    self._queue.append(_Queued(cookie, None, error=error))
                else:
                    self._queued_bytes += request.length_bytes
                    self._queue.append(_Queued(cookie, request, disk.arrived(request)))
            if (
                self._closing
                or self._queued_bytes > _MAXIMUM_QUEUED_BYTES
                or len(self._queue) > _MAXIMUM_QUEUED_REQUESTS
                or not self._receive(socket.MSG_DONTWAIT)
            ):
                return

    def _receive(self, flags: int) -> bool:
        """Read once into the buffer; whether anything came."""
        if self._start == self._end:
            self._start = self._end = 0
        elif self._end == _BUFFER_BYTES:
            rest = self._end - self._start
            self._view[:rest] = self._view[self._start : self._end]
            self._start, self._end = 0, rest
        try:
            count = self._socket.recv_into(self._view[self._end :], flags=flags)
        except BlockingIOError:
            return False
        if not count:
            self._closing = True
        self._end += count
        return count > 0

    def _parse(self) -> tuple[int, Request | None, int] | None:
        """The next request if all of it is there: its cookie, and itself or why it is refused."""
        if self._end - self._start < REQUEST.size:
            return None
        fields = REQUEST.unpack_from(self._buffer, self._start)
        magic, flags, kind, cookie, offset, length = fields
        if magic != REQUEST_MAGIC:
            raise NbdProtocolError(f"NBD client sent {magic:#x} instead of a request")
        data = b""
        start = self._start + REQUEST.size
        if kind == Command.WRITE:
            if length > MAXIMUM_PAYLOAD_BYTES:
                raise NbdProtocolError(f"NBD client sent a WRITE of {length} bytes")
            if self._end - start < length:
                return None
            data = bytes(self._view[start : start + length])
            start += length
        self._start = start
        if kind == Command.DISCONNECT:
            self._closing = True
            return None
        error = self._refusal(kind, flags, offset, length)
        if error:
            return cookie, None, error
        fua = bool(flags & CommandFlag.FUA)
        if kind == Command.FLUSH:
            return cookie, Request(Operation.FLUSH), 0
        return cookie, Request(_OPERATIONS[Command(kind)], offset, length, fua, data), 0

    def _refusal(self, kind: int, flags: int, offset: int, length: int) -> int:
        """The errno that the protocol document gives to a bad request; 0 for a good one."""
        if kind not in _OPERATIONS or flags & ~_KNOWN_FLAGS:
            return errno.EINVAL
        if kind == Command.FLUSH:
            return 0
        if not length or (offset | length) % SECTOR_BYTES:
            return errno.EINVAL
        if offset + length > self._size_bytes:
            return errno.EINVAL if kind == Command.READ else errno.ENOSPC
        too_long = kind == Command.READ and length > MAXIMUM_PAYLOAD_BYTES
        return errno.EOVERFLOW if too_long else 0

    def _reply(self, cookie: int, error: int, data: bytes) -> None:
        header = SIMPLE_REPLY.pack(SIMPLE_REPLY_MAGIC, wire_error(error), cookie)
        if not data:
            self._socket.sendall(header)
            return
        sent = self._socket.sendmsg((header, data))
        if sent < len(header) + len(data):
            self._socket.sendall((header + data)[sent:])

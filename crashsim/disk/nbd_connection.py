"""One NBD connection in its transmission phase: requests in, replies out.

Where the durability rule meets the wire. Everything that has come in is noted (`Disk.arrived`)
before any reply is sent, so that a FLUSH never seems to come after the end of a write that was
still in flight when the guest sent it.

A device's latency is kept here too: what was performed is answered when the device would have, and
nothing else waits for it. Until then it is in flight, for the log as for the guest.
"""

import errno
import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from crashsim.disk.latency import NO_LATENCY, HeldReplies, Latency
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

_MAXIMUM_REPLIES_BYTES = 1 << 17
"""READs are answered together up to this size: what filesystems read ahead, and even in single
sectors not more buffers than sendmsg(2) takes."""

_MAXIMUM_BUFFERS = 1024
"""What sendmsg(2) takes (IOV_MAX of limits.h)."""

# Plain numbers: an enumeration's operators and calls cost more than all the rest of a small READ.
_FUA = int(CommandFlag.FUA)
_KNOWN_FLAGS = int(CommandFlag.FUA | CommandFlag.NO_HOLE)
_READ, _WRITE = int(Command.READ), int(Command.WRITE)
_FLUSH, _DISCONNECT = int(Command.FLUSH), int(Command.DISCONNECT)
_OPERATIONS = {
    _READ: Operation.READ,
    _WRITE: Operation.WRITE,
    _FLUSH: Operation.FLUSH,
    int(Command.TRIM): Operation.TRIM,
    int(Command.WRITE_ZEROES): Operation.WRITE_ZEROES,
}


@dataclass(frozen=True, slots=True)
class _Queued:
    """A request that has arrived; `request` is None if it is refused with `error`."""

    cookie: int
    request: Request | None
    ticket: int = 0
    error: int = 0
    arrived_seconds: float = 0.0

    @property
    def is_read(self) -> bool:
        return self.request is not None and self.request.operation is Operation.READ

    @property
    def length_bytes(self) -> int:
        return 0 if self.request is None else self.request.length_bytes


_Performed = tuple[_Queued, int, bytes]
"""A request that was performed, the errno that it gave (0: none), and the data of a READ."""


class Connection:
    """Buffers what a client sends and answers it: in order of arrival, but for the latency."""

    def __init__(self, connection: socket.socket, size_bytes: int) -> None:
        """Take over a connection whose handshake is done."""
        self._socket = connection
        self._size_bytes = size_bytes
        self._held: HeldReplies[_Performed] = HeldReplies()
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0
        self._queue: deque[_Queued] = deque()
        self._queued_bytes = 0
        self._closing = False

    @property
    def owes_replies(self) -> bool:
        """Whether something that was performed is not answered yet."""
        return bool(self._held)

    def wait(self) -> bool:
        """Block until there is more to read, or a reply is due; False once the client is done or
        gone."""
        if self._held:
            return self._wait_until_due()
        if self._closing:
            return False
        return self._receive(0)

    def _wait_until_due(self) -> bool:
        # select(2): poll(2) of Python's counts in milliseconds, longer than many a device takes.
        listening = [] if self._closing else [self._socket]
        rest_seconds = max(0.0, self._held.next_due_seconds - time.monotonic())
        if select.select(listening, [], [], rest_seconds)[0]:
            self._receive(0)
        return True

    def serve(self, disk: Disk, latency: Latency = NO_LATENCY) -> None:
        """Note, perform and answer everything that has arrived, and what arrives meanwhile.

        Answers that are not due yet are held back: `wait` returns when one is, to be sent by the
        next call.
        """
        self._note_arrivals(disk)
        while self._queue or self._held:
            performed = [self._perform(disk, queued) for queued in self._take_together()]
            self._note_arrivals(disk)
            if latency is not NO_LATENCY:
                performed = self._hold_back(performed, latency)
            for queued, error, _ in performed:
                if queued.request is not None:
                    disk.replied(queued.ticket, error)
            self._reply(performed)
            if not self._queue:
                return

    def _hold_back(self, performed: Sequence[_Performed], latency: Latency) -> list[_Performed]:
        """Exchange what was performed for what is due now."""
        prompt = []
        for each in performed:
            queued, error, _ = each
            seconds = 0.0 if queued.request is None else latency.seconds(queued.request)
            if queued.request is None or error or not seconds:
                prompt.append(each)
            else:
                self._held.hold(queued.request, queued.arrived_seconds + seconds, each)
        return [*self._held.due(time.monotonic()), *prompt]

    def _take_together(self) -> list[_Queued]:
        """Take the next request off the queue, and all READs right behind it if it is a READ; none
        if there is none.

        A READ changes nothing, so to be answered a little later changes nothing, either. It takes
        fewer system calls: those for each reply are most of what a small READ costs.
        """
        if not self._queue:
            return []
        together = [self._queue.popleft()]
        size_bytes = together[0].length_bytes
        while self._queue and together[-1].is_read and self._queue[0].is_read:
            size_bytes += self._queue[0].length_bytes
            if size_bytes > _MAXIMUM_REPLIES_BYTES:
                break
            together.append(self._queue.popleft())
        return together

    def _perform(self, disk: Disk, queued: _Queued) -> _Performed:
        if queued.request is None:
            return queued, queued.error, b""
        self._queued_bytes -= queued.length_bytes
        try:
            return queued, 0, disk.perform(queued.request)
        except OSError as failure:
            return queued, failure.errno or errno.EIO, b""

    def _note_arrivals(self, disk: Disk) -> None:
        """Drain the socket without blocking; parse and note every request that is complete."""
        while True:
            now_seconds = time.monotonic()
            while not self._closing and (parsed := self._parse()) is not None:
                cookie, request, error = parsed
                if request is None:
                    self._queue.append(_Queued(cookie, None, error=error))
                else:
                    self._queued_bytes += request.length_bytes
                    ticket = disk.arrived(request)
                    self._queue.append(_Queued(cookie, request, ticket, 0, now_seconds))
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
        if kind == _WRITE:
            if length > MAXIMUM_PAYLOAD_BYTES:
                raise NbdProtocolError(f"NBD client sent a WRITE of {length} bytes")
            if self._end - start < length:
                return None
            data = bytes(self._view[start : start + length])
            start += length
        self._start = start
        if kind == _DISCONNECT:
            self._closing = True
            return None
        error = self._refusal(kind, flags, offset, length)
        if error:
            return cookie, None, error
        fua = bool(flags & _FUA)
        if kind == _FLUSH:
            return cookie, Request(Operation.FLUSH), 0
        return cookie, Request(_OPERATIONS[kind], offset, length, fua, data), 0

    def _refusal(self, kind: int, flags: int, offset: int, length: int) -> int:
        """The errno that the protocol document gives to a bad request; 0 for a good one."""
        if kind not in _OPERATIONS or flags & ~_KNOWN_FLAGS:
            return errno.EINVAL
        if kind == _FLUSH:
            return 0
        if not length or (offset | length) % SECTOR_BYTES:
            return errno.EINVAL
        if offset + length > self._size_bytes:
            return errno.EINVAL if kind == _READ else errno.ENOSPC
        too_long = kind == _READ and length > MAXIMUM_PAYLOAD_BYTES
        return errno.EOVERFLOW if too_long else 0

    def _reply(self, performed: Sequence[_Performed]) -> None:
        """Send the replies, by one system call unless the client is slow to take them."""
        if not performed:
            return
        buffers = []
        for queued, error, data in performed:
            buffers.append(SIMPLE_REPLY.pack(SIMPLE_REPLY_MAGIC, wire_error(error), queued.cookie))
            if data:
                buffers.append(data)
        sent = self._socket.sendmsg(buffers[:_MAXIMUM_BUFFERS])
        if sent < sum(map(len, buffers)):
            self._socket.sendall(b"".join(buffers)[sent:])

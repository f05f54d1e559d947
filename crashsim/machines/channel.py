"""The host's end of the agent's channel: requests and answers, marks and acknowledgements.

What comes in is from a guest, and so untrusted: lines have a limit, messages a type, contents a
budget. Whatever breaks the rules ends the guest (`GuestDied`), as silence does.
"""

import base64
import contextlib
import itertools
import json
import queue
import socket
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from crashsim.machines.failures import AgentError, Cause, GuestDied
from crashsim.machines.protocol import Mark

LINE_BYTES_MAX = 64 << 20
CONTENT_BYTES_MAX = 2 << 30
"""What one request may bring back in contents, in base64."""

RECEIVE_BYTES = 1 << 20
T = TypeVar("T")


class Content(msgspec.Struct):
    """A piece of a file's content, in base64; pieces of one file come in order."""

    digest: str
    data: str
    last: bool


class Failure(msgspec.Struct):
    """Why the agent did not do what it was asked: `refused`, `os` (with errno), or `failed`."""

    kind: str
    message: str
    errno: str = ""


class Message(msgspec.Struct):
    """Anything that the agent says; exactly one of the optional parts is there."""

    id: int | None = None
    result: msgspec.Raw = msgspec.Raw()
    error: Failure | None = None
    content: Content | None = None
    mark: int | None = None
    text: str = ""
    hello: int | None = None


Event = Message | GuestDied
_decoder = msgspec.json.Decoder(Message)


@dataclass
class _Pending:
    """A request that waits for its answer."""

    marks: bool
    events: "queue.SimpleQueue[Event]" = field(default_factory=queue.SimpleQueue)
    content_bytes: int = 0


class Channel:
    """Talks with one agent. Any thread may make requests, also at the same time.

    Marks and contents are handled in the thread whose request they belong to, so that an exception
    raised by their handler comes out of that very call.
    """

    def __init__(
        self, connection: socket.socket, describe: Callable[[Cause, str], GuestDied]
    ) -> None:
        """Talk over `connection`.

        `describe` makes the error when the guest dies, of how and what was seen from here; it may
        know better (a panic, where from here the other end has only hung up).
        """
        self._connection = connection
        self._describe = describe
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._pending: dict[int, _Pending] = {}
        self._numbers = itertools.count(1)
        self._death: GuestDied | None = None
        self.hello = threading.Event()
        self._thread = threading.Thread(target=self._receive, name="agent", daemon=True)
        self._thread.start()

    @property
    def death(self) -> GuestDied | None:
        """Why the guest is dead, if it is."""
        return self._death

    def fail(self, death: GuestDied) -> None:
        """Declare the guest dead: every request that waits, and every later one, raises `death`."""
        with self._lock:
            if self._death is not None:
                return
            self._death = death
            waiting = list(self._pending.values())
        self.hello.set()
        for pending in waiting:
            pending.events.put(death)

    def call(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        answer: type[T],
        *,
        timeout_seconds: float,
        on_mark: Mark | None = None,
        on_content: Callable[[Content], None] | None = None,
    ) -> T:
        """Ask the agent for something and wait for the answer, an `answer`.

        Raises AgentError when it says no, GuestDied when there is no answer within the time or the
        guest is dead, and whatever `on_mark` or `on_content` raise.
        """
        number, pending = self._open(on_mark is not None)
        try:
            self._send({"id": number, "op": operation, "arguments": arguments})
            deadline = time.monotonic() + timeout_seconds
            while True:
                message = self._next(pending, deadline, operation)
                if message.mark is not None:
                    self._pass_mark(message, on_mark)
                elif message.content is not None:
                    if on_content is None:
                        raise self.broken("contents that nobody has asked for")
                    on_content(message.content)
                elif message.error is not None:
                    raise AgentError(
                        f"the agent could not do {operation}: {message.error.message}",
                        message.error.errno,
                    )
                elif len(bytes(message.result)):
                    return self._decode(message.result, answer)
        finally:
            with self._lock:
                del self._pending[number]

    def close(self) -> None:
        """Hang up. Idempotent."""
        with contextlib.suppress(OSError):  # it may be closed, or QEMU gone
            self._connection.shutdown(socket.SHUT_RDWR)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._connection.close()

    def _open(self, marks: bool) -> tuple[int, _Pending]:
        pending = _Pending(marks)
        with self._lock:
            if self._death is not None:
                raise self._death
            number = next(self._numbers)
            self._pending[number] = pending
        return number, pending

    def _next(self, pending: _Pending, deadline: float, operation: str) -> Message:
        try:
            event = pending.events.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            self.fail(self._describe(Cause.HUNG, f"no answer to {operation} in time"))
            event = pending.events.get()
        if isinstance(event, GuestDied):
            raise event
        return event

    def _pass_mark(self, message: Message, on_mark: Mark | None) -> None:
        problem = "the host could not record it"
        try:
            if on_mark is None:
                problem = "nothing is being recorded"
            else:
                on_mark(message.text.encode("latin-1").decode("utf-8", "surrogateescape"))
                problem = ""
        except UnicodeEncodeError as error:
            raise self.broken("a mark that is no text") from error
        finally:
            self._send({"ack": message.mark, "problem": problem})

    def _send(self, message: Mapping[str, Any]) -> None:
        line = json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"
        with self._sending:
            try:
                self._connection.sendall(line)
            except OSError:
                # The receiving thread sees the same end, and says why.
                self._thread.join()

    def _receive(self) -> None:
        buffer = bytearray()
        searched = 0
        while True:
            try:
                data = self._connection.recv(RECEIVE_BYTES)
            except OSError:
                data = b""
            if not data:
                self.fail(self._describe(Cause.GONE, "it has hung up"))
                return
            buffer += data
            while (end := buffer.find(b"\n", searched)) >= 0:
                if not self._dispatch(bytes(buffer[:end])):
                    return
                del buffer[: end + 1]
                searched = 0
            searched = len(buffer)
            if searched > LINE_BYTES_MAX:
                self.fail(self.broken("a line without end"))
                return

    def _dispatch(self, line: bytes) -> bool:
        """Give a line to whom it concerns; False once the guest is declared dead for it."""
        try:
            message = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            self.fail(self.broken(str(error)))
            return False
        if message.hello is not None:
            self.hello.set()
            return True
        with self._lock:
            if message.mark is not None:
                pending = next((each for each in self._pending.values() if each.marks), None)
            else:
                pending = self._pending.get(message.id if message.id is not None else -1)
        if pending is not None:
            if message.content is not None:
                pending.content_bytes += len(message.content.data)
                if pending.content_bytes > CONTENT_BYTES_MAX:
                    self.fail(self.broken("more contents than any tree may have"))
                    return False
            pending.events.put(message)
        elif message.mark is not None:
            self._send({"ack": message.mark, "problem": "nothing is being recorded"})
        return True

    def _decode(self, raw: msgspec.Raw, answer: type[T]) -> T:
        try:
            return msgspec.json.decode(raw, type=answer)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self.broken(str(error)) from error

    def broken(self, what: str) -> GuestDied:
        """Declare the guest dead, since its agent sent something that no agent sends."""
        death = self._describe(Cause.PROTOCOL, f"the agent sent {what}")
        self.fail(death)
        return death


def encode_content(data: bytes) -> str:
    """Bytes as they travel."""
    return base64.b64encode(data).decode("ascii")


def to_wire(text: str) -> str:
    """An OS string as it travels: one character for each byte (see the agent's `wire`)."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def from_wire(text: str) -> str:
    """An OS string from how it travels. Raises UnicodeEncodeError if it is none."""
    return text.encode("latin-1").decode("utf-8", "surrogateescape")

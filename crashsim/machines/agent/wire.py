"""Lines of JSON on a file descriptor: how the agent and the host talk.

Strings of the operating system (paths, arguments, values of the environment) are bytes that need
not be UTF-8; JSON has no such thing. They travel as text in which every character is one byte
(Latin-1). Contents travel in base64.
"""

import binascii
import json
import os
from typing import Any

LINE_BYTES_MAX = 16 << 20
"""A longer line is refused. The host cuts what it sends into pieces that are well below."""

READ_BYTES = 1 << 16


class Hangup(Exception):
    """The other side has closed the channel."""


class Refused(Exception):
    """A request that is malformed, unknown or not allowed; the text goes back to the host."""


class LineReader:
    """Cuts a stream into lines, and forgets those that are too long instead of keeping them."""

    def __init__(self, descriptor: int, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        """Read from `descriptor`."""
        self._descriptor = descriptor
        self._limit = line_bytes_max
        self._pieces: list[bytes] = []
        self._size = 0
        self._skipping = False

    def read(self) -> list[bytes | None]:
        """The lines that one read(2) completes; None for a line that was too long.

        Raises Hangup at the end of the stream.
        """
        data = os.read(self._descriptor, READ_BYTES)
        if not data:
            raise Hangup
        lines: list[bytes | None] = []
        *complete, rest = data.split(b"\n")
        for piece in complete:
            self._keep(piece)
            lines.append(None if self._skipping else b"".join(self._pieces))
            self._pieces, self._size, self._skipping = [], 0, False
        self._keep(rest)
        return lines

    def _keep(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > self._limit:
            self._pieces, self._skipping = [], True
        elif piece:
            self._pieces.append(piece)


def send(descriptor: int, message: dict[str, Any]) -> None:
    """Write one message, all of it. Raises OSError."""
    view = memoryview(json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n")
    while view:
        view = view[os.write(descriptor, view) :]


def parse(line: bytes) -> dict[str, Any]:
    """A message; Refused if the line is none."""
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise Refused(f"not JSON: {error}") from error
    if not isinstance(message, dict):
        raise Refused("a message is a JSON object")
    return message


def from_wire(text: str) -> str:
    """An OS string as Python has it, from how it travels; Refused if it cannot be one."""
    try:
        raw = text.encode("latin-1")
    except UnicodeEncodeError as error:
        raise Refused(f"not an OS string (one character for each byte): {text!r}") from error
    if b"\0" in raw:
        raise Refused(f"NUL in an OS string: {text!r}")
    return os.fsdecode(raw)


def encode_content(data: bytes) -> str:
    """Bytes as base64."""
    return binascii.b2a_base64(data, newline=False).decode("ascii")


def decode_content(text: str) -> bytes:
    """Bytes from base64; Refused if it is none."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        raise Refused(f"not base64: {error}") from error

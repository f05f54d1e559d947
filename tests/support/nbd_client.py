"""A bare NBD client that can put several requests into one send: QEMU's cannot be told to."""

import socket
import struct
from typing import NamedTuple

OPTION_MAGIC = b"IHAVEOPT"
READ, WRITE, DISCONNECT, FLUSH, TRIM, CACHE, WRITE_ZEROES = range(7)
FUA = 1


class Reply(NamedTuple):
    """The answer to an option of the handshake."""

    option: int
    kind: int
    data: bytes


class NbdClient:
    """The client's end of a connection, one blocking call at a time."""

    def __init__(self, connection: socket.socket) -> None:
        """Receive the greeting."""
        self.connection = connection
        connection.settimeout(20)
        assert self.receive(8) == b"NBDMAGIC"
        assert self.receive(8) == OPTION_MAGIC
        (self.flags,) = struct.unpack(">H", self.receive(2))

    def receive(self, length: int) -> bytes:
        """Exactly so many bytes; EOFError if the server closes before."""
        data = b""
        while len(data) < length:
            part = self.connection.recv(length - len(data))
            if not part:
                raise EOFError
            data += part
        return data

    def answer_greeting(self, flags: int = 3) -> None:
        """Fixed newstyle, and no zeroes."""
        self.connection.sendall(struct.pack(">I", flags))

    def send_option(self, option: int, data: bytes = b"") -> None:
        """Ask for an option."""
        self.connection.sendall(OPTION_MAGIC + struct.pack(">II", option, len(data)) + data)

    def option_reply(self) -> Reply:
        """One reply to it."""
        magic, option, kind, length = struct.unpack(">QIII", self.receive(20))
        assert magic == 0x3E889045565A9
        return Reply(option, kind, self.receive(length))

    def go(self, name: bytes = b"") -> list[Reply]:
        """NBD_OPT_GO; the replies, of which the last one says whether it worked."""
        self.send_option(7, struct.pack(">I", len(name)) + name + struct.pack(">H", 0))
        replies = [self.option_reply()]
        while replies[-1].kind == 3:
            replies.append(self.option_reply())
        return replies

    def enter(self) -> None:
        """From the greeting to the transmission phase."""
        self.answer_greeting()
        assert self.go()[-1].kind == 1

    def request(
        self,
        kind: int,
        cookie: int,
        offset: int = 0,
        length: int = 0,
        flags: int = 0,
        data: bytes = b"",
    ) -> bytes:
        """A request's bytes, to be sent alone or with others."""
        return struct.pack(">IHHQQI", 0x25609513, flags, kind, cookie, offset, length) + data

    def write(self, cookie: int, offset: int, data: bytes, flags: int = 0) -> bytes:
        """The bytes of a WRITE."""
        return self.request(WRITE, cookie, offset, len(data), flags, data)

    def send(self, *requests: bytes) -> None:
        """All of them in one piece."""
        self.connection.sendall(b"".join(requests))

    def reply(self, data_bytes: int = 0) -> tuple[int, int, bytes]:
        """Cookie, error and (without one) the data of the next reply."""
        magic, error, cookie = struct.unpack(">IIQ", self.receive(16))
        assert magic == 0x67446698
        return cookie, error, b"" if error else self.receive(data_bytes)

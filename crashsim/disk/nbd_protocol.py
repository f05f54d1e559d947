"""The NBD protocol's numbers, and its fixed newstyle handshake.

Source: the protocol document of the Network Block Device project (doc/proto.md). Only the baseline
is spoken: one export, simple replies; a client that asks for more is told that it is unsupported
and goes on without, as the document demands.
"""

import errno
import socket
import struct
from enum import IntEnum, IntFlag

from crashsim.disk.request import PAGE_BYTES, SECTOR_BYTES
from crashsim.errors import InfrastructureError

INIT_MAGIC = 0x4E42444D41474943
OPTION_MAGIC = 0x49484156454F5054
OPTION_REPLY_MAGIC = 0x3E889045565A9
REQUEST_MAGIC = 0x25609513
SIMPLE_REPLY_MAGIC = 0x67446698

REQUEST = struct.Struct(">IHHQQI")
"""Magic, flags, type, cookie, offset, length."""
SIMPLE_REPLY = struct.Struct(">IIQ")
"""Magic, error, cookie."""
_OPTION = struct.Struct(">QII")
_OPTION_REPLY = struct.Struct(">QIII")

MAXIMUM_PAYLOAD_BYTES = 32 << 20
"""The longest READ or WRITE that is served: the document's limit. QEMU splits longer ones."""

_MAXIMUM_OPTION_BYTES = 8192
"""An option's data holds an export name (at most 4096 bytes) and a list of information types."""


class HandshakeFlag(IntFlag):
    """Flags of the server's greeting and of the client's answer."""

    FIXED_NEWSTYLE = 1
    NO_ZEROES = 2


class TransmissionFlag(IntFlag):
    """What an export can do."""

    HAS_FLAGS = 1
    SEND_FLUSH = 4
    SEND_FUA = 8
    SEND_TRIM = 32
    SEND_WRITE_ZEROES = 64


EXPORT_FLAGS = (
    TransmissionFlag.HAS_FLAGS
    | TransmissionFlag.SEND_FLUSH
    | TransmissionFlag.SEND_FUA
    | TransmissionFlag.SEND_TRIM
    | TransmissionFlag.SEND_WRITE_ZEROES
)


class Option(IntEnum):
    """What a client may ask for in the handshake; every other option is unsupported."""

    EXPORT_NAME = 1
    ABORT = 2
    LIST = 3
    INFO = 6
    GO = 7


class OptionReply(IntEnum):
    """How an option is answered."""

    ACK = 1
    SERVER = 2
    INFO = 3
    ERROR_UNSUPPORTED = 0x80000001
    ERROR_INVALID = 0x80000003
    ERROR_UNKNOWN = 0x80000006


class Information(IntEnum):
    """The kinds of information about an export."""

    EXPORT = 0
    BLOCK_SIZE = 3


class Command(IntEnum):
    """The requests of the transmission phase."""

    READ = 0
    WRITE = 1
    DISCONNECT = 2
    FLUSH = 3
    TRIM = 4
    WRITE_ZEROES = 6


class CommandFlag(IntFlag):
    """The flags of requests that may come without having been negotiated."""

    FUA = 1
    NO_HOLE = 2


_PASSED_ON = frozenset(
    {
        errno.EPERM,
        errno.EIO,
        errno.ENOMEM,
        errno.EINVAL,
        errno.ENOSPC,
        errno.EOVERFLOW,
        errno.ENOTSUP,
        errno.ESHUTDOWN,
    }
)


def wire_error(error: int) -> int:
    """The NBD number for an errno: the document's own numbers are Linux's; all others are EIO."""
    return error if error == 0 or error in _PASSED_ON else errno.EIO


class NbdProtocolError(InfrastructureError):
    """The client broke the protocol, so that the connection had to end."""


def handshake(connection: socket.socket, size_bytes: int, name: str) -> bool:
    """Negotiate; whether the client went on to the transmission phase.

    Raises NbdProtocolError where the client talks nonsense, and EOFError where it goes away.
    """
    # A plain number: inverting an IntFlag only knows the flags that it has names for.
    greeting = int(HandshakeFlag.FIXED_NEWSTYLE | HandshakeFlag.NO_ZEROES)
    connection.sendall(struct.pack(">QQH", INIT_MAGIC, OPTION_MAGIC, greeting))
    (flags,) = struct.unpack(">I", _receive(connection, 4))
    if flags & ~greeting or not flags & HandshakeFlag.FIXED_NEWSTYLE:
        raise NbdProtocolError(f"NBD client with unknown handshake flags {flags:#x}")
    return _Handshake(connection, size_bytes, name, bool(flags & HandshakeFlag.NO_ZEROES)).run()


class _Handshake:
    def __init__(
        self, connection: socket.socket, size_bytes: int, name: str, no_zeroes: bool
    ) -> None:
        self.connection = connection
        self.size_bytes = size_bytes
        self.name = name.encode()
        self.no_zeroes = no_zeroes

    def run(self) -> bool:
        while True:
            magic, option, length = _OPTION.unpack(_receive(self.connection, _OPTION.size))
            if magic != OPTION_MAGIC or length > _MAXIMUM_OPTION_BYTES:
                raise NbdProtocolError("NBD client sent no option, or one that is too long")
            data = _receive(self.connection, length)
            if option == Option.EXPORT_NAME:
                return self._export_name(data)
            if option == Option.ABORT:
                self._reply(option, OptionReply.ACK)
                return False
            if option in (Option.INFO, Option.GO):
                if self._information(option, data) and option == Option.GO:
                    return True
            elif option == Option.LIST:
                self._list(data)
            else:
                self._reply(option, OptionReply.ERROR_UNSUPPORTED)

    def _export_name(self, data: bytes) -> bool:
        """The old way to go: it has no error reply, so an unknown name ends the connection."""
        if data != self.name:
            return False
        padding = b"" if self.no_zeroes else bytes(124)
        self.connection.sendall(struct.pack(">QH", self.size_bytes, EXPORT_FLAGS) + padding)
        return True

    def _list(self, data: bytes) -> None:
        if data:
            self._reply(Option.LIST, OptionReply.ERROR_INVALID)
            return
        entry = struct.pack(">I", len(self.name)) + self.name
        self._reply(Option.LIST, OptionReply.SERVER, entry)
        self._reply(Option.LIST, OptionReply.ACK)

    def _information(self, option: int, data: bytes) -> bool:
        """Answer INFO or GO; whether it was a proper question about our export."""
        name_bytes = int.from_bytes(data[:4], "big")
        rest = data[4 + name_bytes :]
        if len(rest) < 2 or len(rest) != 2 + 2 * int.from_bytes(rest[:2], "big"):
            self._reply(option, OptionReply.ERROR_INVALID)
            return False
        if data[4 : 4 + name_bytes] != self.name:
            self._reply(option, OptionReply.ERROR_UNKNOWN)
            return False
        export = struct.pack(">HQH", Information.EXPORT, self.size_bytes, EXPORT_FLAGS)
        self._reply(option, OptionReply.INFO, export)
        # Sent unasked, too (the document allows it): a client must know our smallest block.
        sizes = (SECTOR_BYTES, PAGE_BYTES, MAXIMUM_PAYLOAD_BYTES)
        self._reply(option, OptionReply.INFO, struct.pack(">HIII", Information.BLOCK_SIZE, *sizes))
        self._reply(option, OptionReply.ACK)
        return True

    def _reply(self, option: int, kind: OptionReply, data: bytes = b"") -> None:
        header = _OPTION_REPLY.pack(OPTION_REPLY_MAGIC, option, kind, len(data))
        self.connection.sendall(header + data)


def _receive(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        part = connection.recv(length - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)

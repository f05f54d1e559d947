"""A disk of the host's as a block device of this kernel: its own NBD client (drivers/block/nbd.c).

The handshake is the baseline one of the NBD project's doc/proto.md; the rest is ioctl(2) with the
numbers of linux/nbd.h.
"""

import fcntl
import os
import socket
import struct
import subprocess
import threading

INIT_MAGIC = b"NBDMAGIC"
OPTION_MAGIC = b"IHAVEOPT"
FIXED_NEWSTYLE = 1
NO_ZEROES = 2
EXPORT_NAME = 1

NBD_SET_SOCK = 0xAB00
NBD_SET_BLKSIZE = 0xAB01
NBD_DO_IT = 0xAB03
NBD_CLEAR_SOCK = 0xAB04
NBD_SET_SIZE_BLOCKS = 0xAB07
NBD_SET_FLAGS = 0xAB0A

SECTOR_BYTES = 512
DEVICES_MAX = 64


class NoDisk(Exception):
    """The host's disk cannot be had."""


class NbdDevice:
    """A block device that the host serves, for as long as this is open.

    :ivar path: its node.
    """

    def __init__(self, socket_path: str) -> None:
        """Connect to the unix socket at `socket_path`. Raises NoDisk and OSError."""
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(socket_path)
            self.size_bytes, flags = handshake(self._socket)
            self.path, self._descriptor = _free_device()
        except BaseException:
            self._socket.close()
            raise
        self._ioctl(NBD_SET_BLKSIZE, SECTOR_BYTES)
        self._ioctl(NBD_SET_SIZE_BLOCKS, self.size_bytes // SECTOR_BYTES)
        self._ioctl(NBD_SET_FLAGS, flags)
        self._ioctl(NBD_SET_SOCK, self._socket.fileno())
        # It returns when the connection ends.
        self._thread = threading.Thread(target=self._serve, name="nbd", daemon=True)
        self._thread.start()

    def break_off(self) -> None:
        """End the connection: whatever is asked of the device from now on fails."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # the host was first

    def close(self) -> None:
        """Give the device back."""
        self.break_off()
        self._thread.join()
        self._ioctl(NBD_CLEAR_SOCK, 0)
        os.close(self._descriptor)
        self._socket.close()

    def _serve(self) -> None:
        try:
            self._ioctl(NBD_DO_IT, 0)
        except OSError:
            return  # the connection was broken off, here or by the host: `close` follows

    def _ioctl(self, request: int, argument: int) -> None:
        fcntl.ioctl(self._descriptor, request, argument)


def handshake(connection: socket.socket) -> tuple[int, int]:
    """Ask for the export without a name: (its bytes, its transmission flags). Raises NoDisk."""
    if _receive(connection, 16) != INIT_MAGIC + OPTION_MAGIC:
        raise NoDisk("the host does not speak NBD")
    (offered,) = struct.unpack(">H", _receive(connection, 2))
    if offered & (FIXED_NEWSTYLE | NO_ZEROES) != FIXED_NEWSTYLE | NO_ZEROES:
        raise NoDisk("the host speaks an old kind of NBD")
    connection.sendall(struct.pack(">I", FIXED_NEWSTYLE | NO_ZEROES))
    connection.sendall(OPTION_MAGIC + struct.pack(">II", EXPORT_NAME, 0))
    size_bytes, flags = struct.unpack(">QH", _receive(connection, 10))
    return size_bytes, flags


def _receive(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = connection.recv(count - len(data))
        if not piece:
            raise NoDisk("the host hung up")
        data += piece
    return data


def _free_device() -> tuple[str, int]:
    """A device that nobody uses, locked so that no other guest takes it.

    Not opened with O_EXCL: it is device-mapper that claims it.
    """
    subprocess.run(["modprobe", "nbd", "max_part=0"], check=True)
    for number in range(DEVICES_MAX):
        path = f"/dev/nbd{number}"
        if not os.path.exists(path):
            break
        if os.path.exists(f"/sys/block/nbd{number}/pid"):
            continue  # connected: nbd.c makes this file for as long
        descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)  # another of us is about to connect it
            continue
        return path, descriptor
    raise NoDisk("every /dev/nbd* is in use")

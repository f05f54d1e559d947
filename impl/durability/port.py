# ruff: noqa: D102 - the operating system's port has its methods documented in the protocol.
"""The one door to the operating system: every byte that the store reads or writes goes through it.

`Port` has the system calls that the store makes, one method each, with the meaning and the errors
(`OSError` with its errno) of the Linux calls of that name. `OsPort` is the operating system itself.
A simulated one implements the same protocol: so the same store runs in a VM, is counted call by
call, and is crashed in memory thousands of times a second.
"""

import errno
import mmap
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar, Protocol, TypeVar

Bytes = bytes | bytearray | memoryview
"""What can be written, and what a mapped file is read as."""

_Result = TypeVar("_Result")

SYNC_FILE_RANGE_WAIT_BEFORE = 1
SYNC_FILE_RANGE_WRITE = 2
SYNC_FILE_RANGE_WAIT_AFTER = 4
WRITE_OUT = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER
"""Flags of sync_file_range(2), as in <fcntl.h>; together: write the file's pages out and wait."""


class Port(Protocol):
    """The system calls of the store. Every one raises OSError, with the call's errno and a path:
    that of a descriptor is the one by which it was opened.

    Paths are `str`, with undecodable bytes as `os.fsdecode` gives them. A call is not repeated
    here: short reads and short writes are the caller's to handle (see `write_all`).
    """

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        """open(2), close-on-exec; a directory is opened with O_DIRECTORY. Returns a descriptor."""

    def close(self, descriptor: int) -> None:
        """close(2). Its error is reported: on NFS and with quotas it may be a write's."""

    def read(self, descriptor: int, count: int) -> bytes:
        """read(2): up to `count` bytes from the descriptor's position; empty at the end."""

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        """pread(2): up to `count` bytes from `offset`."""

    def write(self, descriptor: int, data: Bytes) -> int:
        """write(2). Returns how many bytes were taken, which may be fewer than given."""

    def truncate(self, descriptor: int, length: int) -> None:
        """ftruncate(2)."""

    def map(self, descriptor: int, length: int) -> Bytes:
        """mmap(2), private and read-only, of the first `length` > 0 bytes; it outlives the
        descriptor. Raises OSError with ENODEV where the file cannot be mapped."""

    def stat(self, path: str) -> os.stat_result:
        """stat(2)."""

    def lstat(self, path: str) -> os.stat_result:
        """lstat(2)."""

    def fstat(self, descriptor: int) -> os.stat_result:
        """fstat(2)."""

    def set_times(self, descriptor: int, access_ns: int, modification_ns: int) -> None:
        """futimens(2), in nanoseconds since the epoch."""

    def change_mode(self, descriptor: int, mode: int) -> None:
        """fchmod(2)."""

    def list_directory(self, path: str) -> Sequence[str]:
        """getdents(2) to its end: the names in a directory, without `.` and `..`, unordered."""

    def make_directory(self, path: str, mode: int = 0o777) -> None:
        """mkdir(2)."""

    def remove_directory(self, path: str) -> None:
        """rmdir(2)."""

    def rename(self, source: str, target: str) -> None:
        """rename(2): replaces the target atomically, for running programs."""

    def link(self, source: str, target: str) -> None:
        """link(2): EEXIST if the target exists."""

    def unlink(self, path: str) -> None:
        """unlink(2)."""

    def symlink(self, content: str, path: str) -> None:
        """symlink(2)."""

    def read_link(self, path: str) -> str:
        """readlink(2)."""

    def fsync(self, descriptor: int) -> None:
        """fsync(2), of a file or of a directory: content, metadata, and the device's cache."""

    def fdatasync(self, descriptor: int) -> None:
        """fdatasync(2)."""

    def sync_file_range(self, descriptor: int, offset: int, count: int, flags: int) -> None:
        """sync_file_range(2): pages only, no metadata, no device flush. `count` 0: to the end."""

    def sync_filesystem(self, descriptor: int) -> None:
        """syncfs(2): everything of the filesystem that the descriptor is on."""


class OsPort:
    """The operating system that this process runs on."""

    _paths: ClassVar[dict[int, str]] = {}
    """By which path a descriptor was opened. Descriptors are the process', not the port's."""

    def _on(
        self, descriptor: int, call: Callable[..., _Result], *arguments: Any, **options: Any
    ) -> _Result:
        """Make a call on a descriptor; its error names the path."""
        try:
            return call(descriptor, *arguments, **options)
        except OSError as error:
            error.filename = self._paths.get(descriptor)
            raise

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
        self._paths[descriptor] = path
        return descriptor

    def close(self, descriptor: int) -> None:
        self._on(descriptor, os.close)

    def read(self, descriptor: int, count: int) -> bytes:
        return self._on(descriptor, os.read, count)

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        return self._on(descriptor, os.pread, count, offset)

    def write(self, descriptor: int, data: Bytes) -> int:
        return self._on(descriptor, os.write, data)

    def truncate(self, descriptor: int, length: int) -> None:
        self._on(descriptor, os.ftruncate, length)

    def map(self, descriptor: int, length: int) -> Bytes:
        # Before Python 3.13 mmap keeps a duplicate of the descriptor open.
        options: dict[str, bool] = {"trackfd": False} if sys.version_info >= (3, 13) else {}
        flags, protection = mmap.MAP_PRIVATE, mmap.PROT_READ
        mapping = self._on(descriptor, mmap.mmap, length, flags, protection, **options)
        return memoryview(mapping)

    def stat(self, path: str) -> os.stat_result:
        return os.stat(path)

    def lstat(self, path: str) -> os.stat_result:
        return os.lstat(path)

    def fstat(self, descriptor: int) -> os.stat_result:
        return self._on(descriptor, os.fstat)

    def set_times(self, descriptor: int, access_ns: int, modification_ns: int) -> None:
        self._on(descriptor, os.utime, None, ns=(access_ns, modification_ns))

    def change_mode(self, descriptor: int, mode: int) -> None:
        self._on(descriptor, os.fchmod, mode)

    def list_directory(self, path: str) -> Sequence[str]:
        return os.listdir(path)

    def make_directory(self, path: str, mode: int = 0o777) -> None:
        os.mkdir(path, mode)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def rename(self, source: str, target: str) -> None:
        os.rename(source, target)

    def link(self, source: str, target: str) -> None:
        os.link(source, target)

    def unlink(self, path: str) -> None:
        os.unlink(path)

    def symlink(self, content: str, path: str) -> None:
        os.symlink(content, path)

    def read_link(self, path: str) -> str:
        return os.readlink(path)

    def fsync(self, descriptor: int) -> None:
        self._on(descriptor, os.fsync)

    def fdatasync(self, descriptor: int) -> None:
        self._on(descriptor, os.fdatasync)

    def sync_file_range(self, descriptor: int, offset: int, count: int, flags: int) -> None:
        import ctypes

        arguments = (ctypes.c_int64(offset), ctypes.c_int64(count), ctypes.c_uint(flags))
        self._on(descriptor, _caller(_libc().sync_file_range), *arguments)

    def sync_filesystem(self, descriptor: int) -> None:
        self._on(descriptor, _caller(_libc().syncfs))


@cache
def _libc() -> Any:
    """The C library, for the calls that `os` lacks; loaded when one is made: it takes a while."""
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _caller(function: Callable[..., int]) -> Callable[..., None]:
    """A function of libc, with its errors raised and interrupted calls repeated, as in `os`."""
    import ctypes

    def call(*arguments: Any) -> None:
        while function(*arguments) != 0:
            number = ctypes.get_errno()
            if number != errno.EINTR:
                raise OSError(number, os.strerror(number))

    return call


def write_all(port: Port, descriptor: int, data: Bytes) -> None:
    """Write every byte, however short the single writes are (write(2), PEP 475 for EINTR)."""
    written = port.write(descriptor, data) if len(data) else 0
    if written < len(data):
        view = memoryview(data)[written:]
        while view:
            view = view[port.write(descriptor, view) :]


def read_file(port: Port, path: str) -> bytes:
    """The whole content of a file. Raises OSError (FileNotFoundError and so on)."""
    descriptor = port.open(path, os.O_RDONLY)
    try:
        return read_descriptor(port, descriptor)
    finally:
        port.close(descriptor)


def read_descriptor(port: Port, descriptor: int) -> bytes:
    """Everything from the descriptor's position to the end of the file."""
    chunks = []
    while chunk := port.read(descriptor, 1 << 20):
        chunks.append(chunk)
    return b"".join(chunks)


def map_file(port: Port, path: str) -> Bytes:
    """The whole content of a file, mapped; the descriptor is closed at once.

    Where the file cannot be mapped it is read. Raises OSError (FileNotFoundError and so on).
    """
    descriptor = port.open(path, os.O_RDONLY)
    try:
        size_bytes = port.fstat(descriptor).st_size
        if size_bytes == 0:
            return b""
        try:
            return port.map(descriptor, size_bytes)
        except OSError as error:
            if error.errno not in (errno.ENODEV, errno.EPERM, errno.EACCES, errno.ENOMEM):
                raise
            return read_descriptor(port, descriptor)
    finally:
        port.close(descriptor)

"""Knowing that a file has not changed, without reading it again."""

import os
from typing import NamedTuple

from impl.durability.port import Port


class _Seen(NamedTuple):
    """The file as it was read; its descriptor stays open. None for one that was not there."""

    descriptor: int | None
    identity: tuple[int, int, int, int]


class WatchedFile:
    """A file that others replace by rename(2), to be read again only when they did.

    What tells is stat(2): device, inode, size and modification time. An inode's number is given
    to another file as soon as the old one is gone, and sizes and coarse times repeat; so the
    descriptor that was read stays open: as long as it is, no other file has its inode (git commit
    4f36b8597c, after the proposal of seed 002 had been merged without that).
    """

    def __init__(self, port: Port, path: str, *, use_cache: bool = True) -> None:
        """`use_cache` False: every `refresh` reads, as git did before seed 002."""
        self._port = port
        self._path = path
        self._use_cache = use_cache
        self._seen: _Seen | None = None
        self.content: bytes | None = None
        self.stats = 0
        self.reads = 0

    def refresh(self) -> bool:
        """Read the file into `content` (None: there is none) if it may have changed; whether so.

        Raises OSError; the next call then reads again.
        """
        if self._seen is not None and self._use_cache:
            self.stats += 1
            if self._seen.identity == self._identity_now():
                return False
        self.forget()
        self._seen = self._read()
        return True

    def forget(self) -> None:
        """Read again next time: what was read turned out to be of no use."""
        if self._seen is not None and self._seen.descriptor is not None:
            self._port.close(self._seen.descriptor)
        self._seen = None

    def _identity_now(self) -> tuple[int, int, int, int]:
        try:
            return _identity(self._port.stat(self._path))
        except FileNotFoundError:
            return _NOT_THERE

    def _read(self) -> _Seen:
        self.reads += 1
        try:
            descriptor = self._port.open(self._path, os.O_RDONLY)
        except FileNotFoundError:
            self.content = None
            return _Seen(None, _NOT_THERE)
        complete = False
        try:
            seen = _Seen(descriptor, _identity(self._port.fstat(descriptor)))
            chunks = []
            while chunk := self._port.read(descriptor, 1 << 20):
                chunks.append(chunk)
            self.content = b"".join(chunks)
            complete = True
            return seen
        finally:
            if not complete:
                self._port.close(descriptor)


_NOT_THERE = (0, 0, 0, 0)


def _identity(status: os.stat_result) -> tuple[int, int, int, int]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns

"""Where the bytes of a table come from: a mapping, memory, or one read(2) a block."""

import errno
import os
from typing import Protocol

from impl.durability.port import Bytes, Port
from impl.refs.errors import CorruptReftable


class Counters:
    """What reading a stack costs, in calls: what seed 002's two optimisations save.

    :ivar list_stats: stat calls to find out whether `tables.list` has changed.
    :ivar list_reads: times that `tables.list` was opened and read.
    :ivar table_opens: tables opened.
    :ivar table_reads: read calls on tables.
    """

    def __init__(self) -> None:
        """All zero."""
        self.list_stats = 0
        self.list_reads = 0
        self.table_opens = 0
        self.table_reads = 0


class Source(Protocol):
    """The content of one table, which never changes.

    :ivar size_bytes: its length.
    :ivar is_memory: whether `read` costs no system call.
    """

    size_bytes: int
    is_memory: bool

    def read(self, start: int, end: int) -> bytes:
        """The bytes from `start` to `end`, or to the end of the table."""

    def close(self) -> None:
        """Release the descriptor, if one is held."""


class MemorySource:
    """A table that is mapped, or was read whole. It holds no descriptor."""

    is_memory = True

    def __init__(self, content: Bytes) -> None:
        """`content`: the whole table."""
        self._content = content
        self.size_bytes = len(content)

    def read(self, start: int, end: int) -> bytes:
        """See `Source`."""
        return bytes(self._content[start:end])

    def close(self) -> None:
        """Nothing to release: the mapping goes with the last reference to it."""


class DescriptorSource:
    """A table that is kept open, every block read when it is wanted: git before seed 002."""

    is_memory = False

    def __init__(self, port: Port, descriptor: int, size_bytes: int, counters: Counters) -> None:
        """Takes over the descriptor."""
        self._port = port
        self._descriptor = descriptor
        self._counters = counters
        self.size_bytes = size_bytes

    def read(self, start: int, end: int) -> bytes:
        """See `Source`."""
        parts = []
        while start < min(end, self.size_bytes):
            self._counters.table_reads += 1
            part = self._port.pread(self._descriptor, min(end, self.size_bytes) - start, start)
            if not part:
                raise CorruptReftable("a table has become shorter while it was read")
            parts.append(part)
            start += len(part)
        return b"".join(parts)

    def close(self) -> None:
        """See `Source`."""
        self._port.close(self._descriptor)


def open_source(port: Port, path: str, counters: Counters, *, use_mapping: bool) -> Source:
    """Open a table: mapped, and its descriptor closed at once, so that a stack of many tables
    needs none. Where a file cannot be mapped (ENODEV) it is read whole. Raises OSError.
    """
    descriptor = port.open(path, os.O_RDONLY)
    counters.table_opens += 1
    keep = False
    try:
        size = port.fstat(descriptor).st_size
        whole = DescriptorSource(port, descriptor, size, counters)
        if not use_mapping:
            keep = True
            return whole
        if size == 0:
            return MemorySource(b"")
        try:
            return MemorySource(port.map(descriptor, size))
        except OSError as error:
            if error.errno != errno.ENODEV:
                raise
            return MemorySource(whole.read(0, size))
    finally:
        if not keep:
            port.close(descriptor)

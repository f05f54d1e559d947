"""Writing a pack, entry by entry."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from impl.durability.port import Bytes
from impl.objects.hashes import HashAlgorithm
from impl.objects.idx import PackedEntry
from impl.objects.pack_format import (
    OFFSET_DELTA,
    encode_base_distance,
    encode_entry_header,
    encode_header,
)

_BUFFER_BYTES = 1 << 17


class PackWriter:
    """A pack on its way to a file, or into a pipe that only takes more.

    :ivar entries: where each object stands, in pack order.
    :ivar offsets: the same, to be looked up by name.
    """

    def __init__(
        self, write: Callable[[Bytes], object], algorithm: HashAlgorithm, object_count: int
    ) -> None:
        """
        :param write: takes all of what it is given, or raises.
        """
        self._write = write
        self._hasher = algorithm.new()
        self._buffer = bytearray(encode_header(object_count))
        self._flushed_bytes = 0
        self.entries: list[PackedEntry] = []
        self.offsets: dict[bytes, int] = {}

    @property
    def offset(self) -> int:
        """Where the next entry starts."""
        return self._flushed_bytes + len(self._buffer)

    def add_whole(self, name: bytes, kind: int, size_bytes: int, compressed: Bytes) -> None:
        """An object that is no delta; `size_bytes` is its inflated size."""
        self._add(name, encode_entry_header(kind, size_bytes), compressed)

    def add_delta(self, name: bytes, base: bytes, size_bytes: int, compressed: Bytes) -> None:
        """An object as a delta of `base`, which was added before; the size is the delta's."""
        distance = self.offset - self.offsets[base]
        prefix = encode_entry_header(OFFSET_DELTA, size_bytes) + encode_base_distance(distance)
        self._add(name, prefix, compressed)

    def _add(self, name: bytes, prefix: bytes, compressed: Bytes) -> None:
        offset = self.offset
        self.offsets[name] = offset
        checksum = zlib.crc32(compressed, zlib.crc32(prefix))
        self.entries.append(PackedEntry(name, offset, checksum))
        self._buffer += prefix
        self._buffer += compressed
        if len(self._buffer) >= _BUFFER_BYTES:
            self._flush()

    def _flush(self) -> None:
        self._hasher.update(self._buffer)
        self._write(self._buffer)
        self._flushed_bytes += len(self._buffer)
        self._buffer = bytearray()

    def finish(self) -> bytes:
        """Write what is left and the checksum of everything; returns the checksum."""
        self._hasher.update(self._buffer)
        checksum = self._hasher.digest()
        self._write(self._buffer + checksum)
        self._flushed_bytes += len(self._buffer) + len(checksum)
        self._buffer = bytearray()
        return checksum

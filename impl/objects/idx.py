"""Pack indexes: where in a pack each object starts. Version 2 is read and written.

Format: gitformat-pack(5), "Version 2 pack-*.idx files".
"""

import struct
from array import array
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from impl.durability.port import Bytes
from impl.objects.hashes import HashAlgorithm
from impl.objects.pack_errors import DamagedPackIndex, UnsupportedVersion

_MAGIC = b"\xfftOc"
_HEADER_BYTES = 8
_FANOUT_BYTES = 1024
_LARGE = 1 << 31


class PackedEntry(NamedTuple):
    """One object's place in a pack.

    :ivar name: the object's name, binary.
    :ivar offset: where its entry starts, in bytes.
    :ivar checksum: CRC-32 of the entry as it is in the pack.
    """

    name: bytes
    offset: int
    checksum: int


def encode_index(
    entries: Sequence[PackedEntry],
    pack_checksum: bytes,
    algorithm: HashAlgorithm,
    *,
    large_from: int = _LARGE,
) -> bytes:
    """The .idx of a pack.

    :param entries: the pack's objects in any order.
    :param large_from: offsets from here on go to the 64-bit table; lower it in tests only.
    """
    ordered = sorted(entries, key=lambda entry: entry.name)
    parts = [_MAGIC, struct.pack(">I", 2), encode_fanout([entry.name for entry in ordered])]
    parts += [entry.name for entry in ordered]
    parts.append(struct.pack(f">{len(ordered)}I", *(entry.checksum for entry in ordered)))
    large: list[int] = []
    offsets: list[int] = []
    for entry in ordered:
        if entry.offset < large_from:
            offsets.append(entry.offset)
        else:
            offsets.append(_LARGE | len(large))
            large.append(entry.offset)
    parts.append(struct.pack(f">{len(offsets)}I", *offsets))
    parts.append(struct.pack(f">{len(large)}Q", *large))
    parts.append(pack_checksum)
    content = b"".join(parts)
    return content + algorithm.new(content).digest()


def encode_fanout(ordered_names: Sequence[bytes]) -> bytes:
    """256 numbers: how many names start with a byte up to each."""
    counts = [0] * 256
    for name in ordered_names:
        counts[name[0]] += 1
    total = 0
    for byte, count in enumerate(counts):
        total += count
        counts[byte] = total
    return struct.pack(">256I", *counts)


class NameTable:
    """Sorted object names in a file, with their fanout: what .idx and multi-pack-index share."""

    def __init__(self, fanout: Bytes, names: Bytes, name_bytes: int) -> None:
        """:param fanout: its 1024 bytes. :param names: one after the other."""
        self._fanout: tuple[int, ...] = (0, *struct.unpack(">256I", fanout))
        self._names = names
        self._name_bytes = name_bytes
        self.count: int = self._fanout[256]

    def fits(self) -> bool:
        """Whether the fanout only rises, and there are as many names as it ends with."""
        rises = all(low <= high for low, high in pairwise(self._fanout))
        return rises and len(self._names) == self.count * self._name_bytes

    def is_sorted(self) -> bool:
        """Whether every name stands where the fanout says, in strict order: fsck's question."""
        for byte in range(256):
            previous = b""
            for position in range(self._fanout[byte], self._fanout[byte + 1]):
                name = self.name_at(position)
                if name[0] != byte or name <= previous:
                    return False
                previous = name
        return True

    def name_at(self, position: int) -> bytes:
        """The binary name at a position, counted in sorted order."""
        start = position * self._name_bytes
        return bytes(self._names[start : start + self._name_bytes])

    def find(self, name: bytes) -> int | None:
        """The position of a binary name; None if it is not there."""
        low, high = self._fanout[name[0]], self._fanout[name[0] + 1]
        while low < high:
            middle = (low + high) // 2
            candidate = self.name_at(middle)
            if candidate == name:
                return middle
            if candidate < name:
                low = middle + 1
            else:
                high = middle
        return None

    def starting_with(self, prefix: str) -> list[bytes]:
        """The names whose hex form starts with `prefix`, of two digits at least."""
        first = int(prefix[:2], 16)
        span = range(self._fanout[first], self._fanout[first + 1])
        return [name for at in span if (name := self.name_at(at)).hex().startswith(prefix)]

    def __iter__(self) -> Iterator[bytes]:
        """The names in order."""
        return (self.name_at(position) for position in range(self.count))


class PackIndex:
    """One .idx, read where it lies: nothing is unpacked before it is asked for."""

    def __init__(self, data: Bytes, algorithm: HashAlgorithm, path: str) -> None:
        """Check the header, the sizes and the checksum.

        :raises DamagedPackIndex: any of them is wrong. :raises UnsupportedVersion: not version 2.
        """
        width = algorithm.size_bytes
        smallest = _HEADER_BYTES + _FANOUT_BYTES + 2 * width
        if len(data) < smallest:
            raise DamagedPackIndex(path, f"a pack index of {len(data)} bytes is cut short")
        magic, version = struct.unpack_from(">4sI", data)
        if magic != _MAGIC:
            raise UnsupportedVersion(path, "a pack index that is not of version 2")
        if version != 2:
            raise UnsupportedVersion(path, f"pack index version {version}")
        if algorithm.new(data[:-width]).digest() != data[-width:]:
            raise DamagedPackIndex(path, "its checksum does not match its content")
        self.path = path
        names_start = _HEADER_BYTES + _FANOUT_BYTES
        self.count: int = struct.unpack_from(">I", data, names_start - 4)[0]
        self._checksums_start = names_start + self.count * width
        self._offsets_start = self._checksums_start + self.count * 4
        self._large_start = self._offsets_start + self.count * 4
        self._large_end = len(data) - 2 * width
        if self._large_start > self._large_end or (self._large_end - self._large_start) % 8:
            raise DamagedPackIndex(path, f"it does not have the size of {self.count} objects")
        self.names = NameTable(
            data[_HEADER_BYTES:names_start], data[names_start : self._checksums_start], width
        )
        if not self.names.fits():
            raise DamagedPackIndex(path, "its fanout table is not in order")
        self._data = data
        self.pack_checksum = bytes(data[-2 * width : -width])

    @cached_property
    def checksums(self) -> Sequence[int]:
        """CRC-32 of each entry, by name order."""
        return struct.unpack_from(f">{self.count}I", self._data, self._checksums_start)

    @cached_property
    def offsets(self) -> Sequence[int]:
        """Where each entry starts in the pack, by name order.

        :raises DamagedPackIndex: one points beyond the table of 64-bit offsets.
        """
        short = struct.unpack_from(f">{self.count}I", self._data, self._offsets_start)
        large_count = (self._large_end - self._large_start) // 8
        if not large_count and max(short, default=0) < _LARGE:
            return short
        large = struct.unpack_from(f">{large_count}Q", self._data, self._large_start)
        if any(offset & _LARGE and offset ^ _LARGE >= large_count for offset in short):
            raise DamagedPackIndex(self.path, "an offset is missing from the 64-bit table")
        return array("Q", (large[at ^ _LARGE] if at & _LARGE else at for at in short))

    @cached_property
    def by_offset(self) -> Sequence[int]:
        """Positions in name order, ordered by where the entries start in the pack."""
        return sorted(range(self.count), key=self.offsets.__getitem__)

    def entries(self) -> list[PackedEntry]:
        """Everything in it, by name order."""
        return list(map(PackedEntry, self.names, self.offsets, self.checksums))

"""One pack of a repository: its .pack and .idx, opened when first needed, read by name."""

import zlib
from functools import cached_property
from typing import NamedTuple

from impl.durability.port import Bytes, Port, map_file
from impl.errors import Corrupt
from impl.objects.hashes import HashAlgorithm
from impl.objects.idx import PackIndex
from impl.objects.pack_data import Content, PackData
from impl.objects.pack_errors import DamagedPack
from impl.objects.pack_format import HEADER_BYTES, TYPE_NAMES, EntryHeader, decode_header


class RawEntry(NamedTuple):
    """An entry as it is in its pack, to be copied into another one.

    :ivar header: its type, size and base. :ivar compressed: its deflated bytes.
    """

    header: EntryHeader
    compressed: Bytes


class Pack:
    """A pack and its index.

    :ivar stem: their common path, without `.pack` and `.idx`.
    """

    def __init__(self, port: Port, stem: str, algorithm: HashAlgorithm) -> None:
        """Opens nothing yet."""
        self.port = port
        self.stem = stem
        self.path = stem + ".pack"
        self.algorithm = algorithm

    @property
    def name(self) -> str:
        """`pack-<checksum>`: the file names without directory and suffix."""
        return self.stem[self.stem.rfind("/") + 1 :]

    @cached_property
    def index(self) -> PackIndex:
        """The .idx.

        :raises DamagedPackIndex: it is damaged. :raises OSError: it cannot be opened.
        """
        path = self.stem + ".idx"
        return PackIndex(map_file(self.port, path), self.algorithm, path)

    @cached_property
    def data(self) -> PackData:
        """The pack's bytes, checked against the index as far as that takes no reading of it all.

        :raises DamagedPack: another size or checksum than the index says.
        :raises OSError: it cannot be opened.
        """
        data = map_file(self.port, self.path)
        width = self.algorithm.size_bytes
        count = decode_header(data, self.path)
        if len(data) < HEADER_BYTES + width or data[-width:] != self.index.pack_checksum:
            raise DamagedPack(self.path, "it does not end with the checksum that its .idx names")
        if count != self.index.count:
            raise DamagedPack(
                self.path, f"it has {count} objects, its .idx names {self.index.count}"
            )
        return PackData(data, width, self.path, self._offset_of, lambda name: None)

    def _offset_of(self, name: bytes) -> int | None:
        position = self.index.names.find(name)
        return None if position is None else self.index.offsets[position]

    def at(self, offset: int) -> "PackedObject":
        """The object at an offset."""
        return PackedObject(self, offset)

    def find(self, name: bytes) -> "PackedObject | None":
        """Where the object with a binary name is; None if the pack does not have it.

        :raises DamagedPackIndex: the .idx is damaged. :raises OSError: it cannot be opened.
        """
        offset = self._offset_of(name)
        return None if offset is None else self.at(offset)

    def read(self, offset: int, name: bytes) -> Content:
        """The object at an offset, verified to be the one that is named.

        :raises DamagedPack: it is damaged, or another object.
        """
        kind, content = self.data.read(offset)
        if self.algorithm.object_name(TYPE_NAMES[kind], content) != name.hex():
            raise DamagedPack(
                self.path, f"the object at offset {offset} is not {name.hex()}, as its .idx says"
            )
        return kind, content

    def is_whole(self, name: bytes, position: int) -> bool:
        """Whether the object at a position (in name order) can be read. Raises OSError."""
        try:
            self.read(self.index.offsets[position], name)
        except Corrupt:
            return False
        return True

    def raw(self, position: int) -> RawEntry | None:
        """The entry at a position (in name order) as it is; None if its CRC-32 does not match."""
        offset = self.index.offsets[position]
        end = self._ends[offset]
        data = self.data
        if not offset < end <= data.end:
            raise DamagedPack(self.path, f"its .idx has an object at {offset}, outside of it")
        if zlib.crc32(data.data[offset:end]) != self.index.checksums[position]:
            return None
        header = data.header(offset)
        return RawEntry(header, data.data[header.data_offset : end])

    @cached_property
    def _ends(self) -> dict[int, int]:
        """Where the entry at each offset ends: at the next one."""
        starts = sorted(self.index.offsets)
        return dict(zip(starts, [*starts[1:], self.data.end], strict=True))

    @cached_property
    def positions_by_offset(self) -> dict[int, int]:
        """Positions in name order, by where the entries start in the pack."""
        return {offset: position for position, offset in enumerate(self.index.offsets)}

    def modified_ns(self) -> int:
        """When the .pack was last modified, in nanoseconds since the epoch. Raises OSError."""
        return self.port.stat(self.path).st_mtime_ns

    def size_bytes(self) -> int:
        """The size of the .pack. Raises OSError."""
        return self.port.stat(self.path).st_size

    def has(self, suffix: str) -> bool:
        """Whether a file goes with it: `.keep`, `.bitmap`, …"""
        try:
            self.port.stat(self.stem + suffix)
        except FileNotFoundError:
            return False
        return True

    def verify_checksum(self) -> None:
        """Read the whole pack and compare its checksum. :raises DamagedPack: it differs."""
        data = self.data
        if self.algorithm.new(data.data[: data.end]).digest() != self.index.pack_checksum:
            raise DamagedPack(self.path, "its checksum does not match its content")


class PackedObject(NamedTuple):
    """Where an object is: in which pack, and at which offset in it."""

    pack: Pack
    offset: int

"""Reading a pack that has no index yet: every entry found, every delta resolved, every name made.

What index-pack and unpack-objects do. The pack's own checksum is verified before any object is
handed over, so nothing of a damaged stream is ever published (git's unpack-objects compares it
only after it has published the objects).
"""

import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from impl.durability.port import Bytes
from impl.objects.hashes import HashAlgorithm
from impl.objects.pack_data import LONGEST_CHAIN, Content, PackData
from impl.objects.pack_errors import DamagedPack
from impl.objects.pack_format import (
    HEADER_BYTES,
    OFFSET_DELTA,
    TYPE_NAMES,
    EntryHeader,
    decode_header,
)


class ScannedObject(NamedTuple):
    """One object of a pack.

    :ivar name: binary. :ivar kind: COMMIT … TAG. :ivar content: inflated, deltas resolved.
    :ivar offset: where its entry starts. :ivar checksum: CRC-32 of the entry's bytes.
    """

    name: bytes
    kind: int
    content: bytes
    offset: int
    checksum: int


class PackScan:
    """One pack's bytes, checked as a whole when made, then read object by object."""

    def __init__(
        self,
        data: Bytes,
        algorithm: HashAlgorithm,
        path: str,
        outside: Callable[[bytes], Content | None],
    ) -> None:
        """
        :param outside: bases that are not in the pack (thin packs), by binary name.
        :raises DamagedPack: it is cut short, is no pack, or its trailing checksum does not match.
        """
        self.object_count = decode_header(data, path)
        width = algorithm.size_bytes
        if len(data) < HEADER_BYTES + width:
            raise DamagedPack(path, "it ends before its checksum")
        self.checksum = bytes(data[-width:])
        if algorithm.new(data[:-width]).digest() != self.checksum:
            raise DamagedPack(path, "its checksum does not match its content")
        self.outside_bases: dict[bytes, Content] = {}
        self._read_outside = outside
        self._algorithm = algorithm
        self._path = path
        self._offsets: dict[bytes, int] = {}
        self._data = PackData(data, width, path, self._offsets.get, self._outside)
        self._checksums: dict[int, int] = {}
        self._on_offset: defaultdict[int, list[EntryHeader]] = defaultdict(list)
        self._on_name: defaultdict[bytes, list[EntryHeader]] = defaultdict(list)

    def objects(self) -> Iterator[ScannedObject]:
        """Every object, bases before their deltas. May be called once.

        :raises DamagedPack: an entry is damaged, or there are more or fewer than the header says,
            or a delta has no base. :raises ObjectTooLarge: one is.
        """
        bases: list[ScannedObject] = []
        for header, content, checksum in self._entries():
            self._checksums[header.offset] = checksum
            if header.kind in TYPE_NAMES:
                whole = self._named(header.offset, (header.kind, content))
                yield whole
                bases.append(ScannedObject(whole.name, whole.kind, b"", whole.offset, 0))
            elif header.kind == OFFSET_DELTA:
                assert isinstance(header.base, int)
                self._on_offset[header.base].append(header)
            else:
                assert isinstance(header.base, bytes)
                self._on_name[header.base].append(header)
        for base in bases:
            yield from self._descendants(self._children(base.name, base.offset))
        for name in list(self._on_name):
            if self._outside(name) is not None:
                yield from self._descendants(self._on_name.pop(name))
        left = sum(map(len, (*self._on_name.values(), *self._on_offset.values())))
        if left:
            raise DamagedPack(self._path, f"{left} deltas have no base")

    def _entries(self) -> Iterator[tuple[EntryHeader, bytes, int]]:
        offset, data = HEADER_BYTES, self._data
        for number in range(self.object_count):
            if offset >= data.end:
                raise DamagedPack(
                    self._path, f"it ends after {number} of {self.object_count} objects"
                )
            header = data.header(offset)
            content, end = data.inflate(header)
            yield header, content, zlib.crc32(data.data[offset:end])
            offset = end
        if offset != data.end:
            raise DamagedPack(self._path, f"{data.end - offset} bytes follow its last object")

    def _children(self, name: bytes, offset: int) -> list[EntryHeader]:
        return self._on_offset.pop(offset, []) + self._on_name.pop(name, [])

    def _descendants(self, children: list[EntryHeader]) -> Iterator[ScannedObject]:
        """Depth first, so that each base is still cached when its deltas are resolved."""
        waiting = [(header, 1) for header in children]
        while waiting:
            header, depth = waiting.pop()
            if depth > LONGEST_CHAIN:
                raise DamagedPack(self._path, f"a chain of more than {LONGEST_CHAIN} deltas")
            resolved = self._named(header.offset, self._data.read(header.offset))
            yield resolved
            children = self._children(resolved.name, resolved.offset)
            waiting += [(child, depth + 1) for child in children]

    def _named(self, offset: int, content: Content) -> ScannedObject:
        kind, body = content
        name = bytes.fromhex(self._algorithm.object_name(TYPE_NAMES[kind], body))
        self._offsets.setdefault(name, offset)
        return ScannedObject(name, kind, body, offset, self._checksums[offset])

    def _outside(self, name: bytes) -> Content | None:
        if name not in self.outside_bases:
            content = self._read_outside(name)
            if content is None:
                return None
            self.outside_bases[name] = content
        return self.outside_bases[name]

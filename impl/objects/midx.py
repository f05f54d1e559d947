"""Multi-pack-indexes: one index over many packs.

Format: gitformat-pack(5), "multi-pack-index (MIDX) files have the following format".
"""

import struct
from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from impl.durability.port import Bytes
from impl.objects.hashes import HashAlgorithm
from impl.objects.idx import NameTable, encode_fanout
from impl.objects.pack_errors import DamagedMultiPackIndex, UnsupportedVersion

_MAGIC = b"MIDX"
_HEADER_BYTES = 12
_CHUNK_BYTES = 12
_VERSIONS = (1, 2)
_LARGE = 1 << 31
_SHORT = 1 << 32


class MidxEntry(NamedTuple):
    """One object's chosen place.

    :ivar name: binary. :ivar pack: which of the packs, by position in their sorted names.
    :ivar offset: where it starts in that pack, in bytes.
    """

    name: bytes
    pack: int
    offset: int


def encode_midx(
    pack_names: Sequence[str],
    entries: Sequence[MidxEntry],
    algorithm: HashAlgorithm,
    *,
    pseudo_pack_order: Sequence[int] | None = None,
    short_below: int = _SHORT,
) -> bytes:
    """A multi-pack-index of version 1.

    :param pack_names: the packs' `.idx` names, sorted.
    :param entries: each object once, sorted by name.
    :param pseudo_pack_order: positions in `entries` in the order that bitmaps count in; written
        as the RIDX chunk.
    :param short_below: offsets that all are below need no 64-bit table; lower it in tests only.
    """
    name_list = b"".join(name.encode("ascii") + b"\0" for name in pack_names)
    name_list += b"\0" * (-len(name_list) % 4)
    large: list[int] = []
    places = bytearray()
    needs_large = any(entry.offset >= short_below for entry in entries)
    for entry in entries:
        offset = entry.offset
        if needs_large and offset >= min(short_below, _LARGE):
            large.append(offset)
            offset = _LARGE | (len(large) - 1)
        places += struct.pack(">II", entry.pack, offset)
    chunks = [
        (b"PNAM", name_list),
        (b"OIDF", encode_fanout([entry.name for entry in entries])),
        (b"OIDL", b"".join(entry.name for entry in entries)),
        (b"OOFF", bytes(places)),
    ]
    if large:
        chunks.append((b"LOFF", struct.pack(f">{len(large)}Q", *large)))
    if pseudo_pack_order is not None:
        order = struct.pack(f">{len(pseudo_pack_order)}I", *pseudo_pack_order)
        chunks.append((b"RIDX", order))
    parts = [
        struct.pack(">4sBBBBI", _MAGIC, 1, algorithm.index_version, len(chunks), 0, len(pack_names))
    ]
    position = _HEADER_BYTES + _CHUNK_BYTES * (len(chunks) + 1)
    for identifier, chunk in chunks:
        parts.append(struct.pack(">4sQ", identifier, position))
        position += len(chunk)
    parts.append(struct.pack(">4sQ", b"\0\0\0\0", position))
    parts += [chunk for _, chunk in chunks]
    content = b"".join(parts)
    return content + algorithm.new(content).digest()


class MultiPackIndex:
    """One multi-pack-index, read where it lies."""

    def __init__(self, data: Bytes, algorithm: HashAlgorithm, path: str) -> None:
        """Check the header, the chunks and the checksum.

        :raises DamagedMultiPackIndex: any of them is wrong.
        :raises UnsupportedVersion: another version or hash, or one layer of a chain.
        """
        width = algorithm.size_bytes
        if len(data) < _HEADER_BYTES + width:
            raise DamagedMultiPackIndex(path, f"a file of {len(data)} bytes is cut short")
        magic, version, hash_version, chunk_count, base_count, pack_count = struct.unpack_from(
            ">4sBBBBI", data
        )
        if magic != _MAGIC:
            raise DamagedMultiPackIndex(path, "it does not start with MIDX")
        if algorithm.new(data[:-width]).digest() != data[-width:]:
            raise DamagedMultiPackIndex(path, "its checksum does not match its content")
        if version not in _VERSIONS or hash_version != algorithm.index_version or base_count:
            raise UnsupportedVersion(
                path, f"multi-pack-index version {version}, hash {hash_version}, base {base_count}"
            )
        self.path = path
        self.checksum = bytes(data[-width:])
        self._chunks = _read_chunks(data[:-width], chunk_count, path)
        self.pack_names = _read_pack_names(self._chunk(b"PNAM"), pack_count, path)
        fanout = self._chunk(b"OIDF")
        if len(fanout) != 1024:
            raise DamagedMultiPackIndex(path, "its fanout table does not have 256 entries")
        self.names = NameTable(fanout, self._chunk(b"OIDL"), width)
        self.count = self.names.count
        if not self.names.fits() or len(self._chunk(b"OOFF")) != 8 * self.count:
            raise DamagedMultiPackIndex(path, "its tables do not have the same length")

    def _chunk(self, identifier: bytes) -> Bytes:
        if identifier not in self._chunks:
            raise DamagedMultiPackIndex(self.path, f"chunk {identifier.decode()} is missing")
        return self._chunks[identifier]

    def place_at(self, position: int) -> tuple[int, int]:
        """Which pack (by number) and which offset in it, of the object at a position.

        :raises DamagedMultiPackIndex: a pack or a 64-bit offset that is not there.
        """
        pack, offset = struct.unpack_from(">II", self._chunk(b"OOFF"), 8 * position)
        if pack >= len(self.pack_names):
            raise DamagedMultiPackIndex(self.path, f"an object is in the unknown pack {pack}")
        if offset & _LARGE and b"LOFF" in self._chunks:
            large, index = self._chunks[b"LOFF"], offset ^ _LARGE
            if 8 * index + 8 > len(large):
                raise DamagedMultiPackIndex(self.path, "an offset is missing from its LOFF chunk")
            (offset,) = struct.unpack_from(">Q", large, 8 * index)
        return pack, offset

    @cached_property
    def pseudo_pack_order(self) -> Sequence[int] | None:
        """Positions in name order, in the order that bitmaps count in (the RIDX chunk).

        :raises DamagedMultiPackIndex: it does not have each object once.
        """
        if b"RIDX" not in self._chunks:
            return None
        chunk = self._chunks[b"RIDX"]
        if len(chunk) != 4 * self.count:
            raise DamagedMultiPackIndex(self.path, "its RIDX chunk has the wrong length")
        order: Sequence[int] = struct.unpack(f">{self.count}I", chunk)
        if sorted(order) != list(range(self.count)):
            raise DamagedMultiPackIndex(self.path, "its RIDX chunk does not have each object once")
        return order

    @cached_property
    def bitmapped_packs(self) -> Sequence[tuple[int, int]] | None:
        """For each pack, where it starts in pseudo-pack order and how many objects it has there
        (the BTMP chunk); None if the file has none.

        :raises DamagedMultiPackIndex: the chunk has the wrong length.
        """
        if b"BTMP" not in self._chunks:
            return None
        chunk = self._chunks[b"BTMP"]
        if len(chunk) != 8 * len(self.pack_names):
            raise DamagedMultiPackIndex(self.path, "its BTMP chunk has the wrong length")
        return list(struct.iter_unpack(">II", chunk))

    def entries(self) -> list[MidxEntry]:
        """Everything in it, by name order."""
        return [
            MidxEntry(name, *self.place_at(position)) for position, name in enumerate(self.names)
        ]


def _read_chunks(body: Bytes, count: int, path: str) -> dict[bytes, Bytes]:
    table_end = _HEADER_BYTES + _CHUNK_BYTES * (count + 1)
    if table_end > len(body):
        raise DamagedMultiPackIndex(path, "it ends within its table of chunks")
    table = list(struct.iter_unpack(">4sQ", body[_HEADER_BYTES:table_end]))
    chunks: dict[bytes, Bytes] = {}
    for (identifier, start), (_, end) in pairwise(table):
        if not table_end <= start <= end <= len(body) or identifier in chunks:
            raise DamagedMultiPackIndex(path, "its chunks are not where its table says")
        chunks[identifier] = body[start:end]
    return chunks


def _read_pack_names(chunk: Bytes, count: int, path: str) -> list[str]:
    """The names, each of them a plain file name: a path in one would lead out of the directory."""
    raw = bytes(chunk).split(b"\0")[:count]
    names = [name.decode("ascii", "replace") for name in raw]
    plain = all(name.endswith(".idx") and "/" not in name and name.isascii() for name in names)
    if len(names) != count or not plain or any(a >= b for a, b in pairwise(names)):
        raise DamagedMultiPackIndex(path, "its pack names are not plain, or not in order")
    return names

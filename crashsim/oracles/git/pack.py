"""Packs, read object by object through their index, as git reads them (gitformat-pack(5))."""

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from crashsim.oracles.git.damage import Damage, DamageKind, FormatError, classify
from crashsim.oracles.git.delta import apply_delta
from crashsim.oracles.git.objects import (
    OBJECT_LIMIT_BYTES,
    GitObject,
    ObjectFormat,
    ObjectKind,
    ObjectTooLarge,
    make_object,
)
from crashsim.oracles.git.pack_index import IndexEntry, PackIndex

_KINDS = {1: ObjectKind.COMMIT, 2: ObjectKind.TREE, 3: ObjectKind.BLOB, 4: ObjectKind.TAG}
_OFFSET_DELTA = 6
_NAME_DELTA = 7
_HEADER_BYTES = 12
_BASE_CACHE_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class Pack:
    """What a pack holds, object by object.

    :ivar objects: what each name of the index gives: the object, or how it is broken.
    :ivar offsets: where each object begins; the order of the pack, for .rev files.
    :ivar checksum: the pack's trailer, as it is in the file.
    :ivar damage: what is wrong with the file as a whole, objects or not; None when nothing is.
    """

    objects: Mapping[bytes, GitObject | Damage]
    offsets: Mapping[bytes, int]
    checksum: bytes
    damage: Damage | None


def read_pack(content: bytes, index: PackIndex, object_format: ObjectFormat) -> Pack:
    """Read every object that the index names, and check the pack's own header and checksum."""
    reader = _PackReader(content, index, object_format)
    objects = {entry.oid: reader.read(entry) for entry in index.entries}
    return Pack(
        objects,
        {entry.oid: entry.offset for entry in index.entries},
        content[-object_format.size_bytes :],
        _whole_file_damage(content, index, objects, object_format),
    )


def _whole_file_damage(
    content: bytes,
    index: PackIndex,
    objects: Mapping[bytes, GitObject | Damage],
    object_format: ObjectFormat,
) -> Damage | None:
    body_bytes = len(content) - object_format.size_bytes
    if body_bytes < _HEADER_BYTES or content[:4] != b"PACK":
        return classify(content, "has no pack header")
    version, count = struct.unpack_from(">II", content, 4)
    if version not in (2, 3):
        return classify(content, f"has an unknown pack version {version}")
    if count != len(index.entries):
        return classify(content, f"holds {count} objects, its index {len(index.entries)}")
    if object_format.digest(content[:body_bytes]) != content[body_bytes:]:
        return classify(content, "has a bad checksum")
    if content[body_bytes:] != index.pack_checksum:
        return classify(content, "is not the pack that its index was made for")
    for oid, found in objects.items():
        if isinstance(found, Damage):
            return Damage(found.kind, f"holds {oid.hex()}, which {found.reason}")
    return None


class _PackReader:
    """Reads objects of one pack; keeps delta bases within a limit of memory."""

    def __init__(self, content: bytes, index: PackIndex, object_format: ObjectFormat) -> None:
        self._content = content
        self._format = object_format
        self._by_oid = {entry.oid: entry.offset for entry in index.entries}
        starts = sorted({entry.offset for entry in index.entries})
        body_end = len(content) - object_format.size_bytes
        self._ends = dict(zip(starts, [*starts[1:], body_end], strict=True))
        self._bases: dict[int, tuple[ObjectKind, bytes]] = {}
        self._bases_bytes = 0

    def read(self, entry: IndexEntry) -> GitObject | Damage:
        """One object, checked against its name and its CRC."""
        end = self._ends[entry.offset]
        packed = self._content[entry.offset : end]
        try:
            if entry.crc32 is not None and zlib.crc32(packed) != entry.crc32:
                raise FormatError("has a bad CRC in its pack")
            kind, body = self._resolve(entry.offset)
            found = make_object(kind, body, self._format)
        except (FormatError, zlib.error) as error:
            return classify(packed, str(error))
        if found.oid != entry.oid:
            return Damage(DamageKind.CORRUPT, f"hashes to {found.oid.hex()}")
        return found

    def _resolve(self, offset: int) -> tuple[ObjectKind, bytes]:
        deltas: list[tuple[int, bytes]] = []
        seen = set()
        while offset not in self._bases:
            if offset in seen:
                raise FormatError("is a delta of itself")
            seen.add(offset)
            kind, base_offset, body = self._entry(offset)
            if kind is not None:
                self._keep(offset, kind, body)
                break
            deltas.append((offset, body))
            offset = base_offset
        kind, body = self._bases[offset]
        for delta_offset, delta in reversed(deltas):
            body = apply_delta(body, delta)
            self._keep(delta_offset, kind, body)
        return kind, body

    def _keep(self, offset: int, kind: ObjectKind, body: bytes) -> None:
        if self._bases_bytes + len(body) > _BASE_CACHE_BYTES:
            self._bases.clear()
            self._bases_bytes = 0
        self._bases[offset] = (kind, body)
        self._bases_bytes += len(body)

    def _entry(self, offset: int) -> tuple[ObjectKind | None, int, bytes]:
        """(kind, 0, body) of a plain entry, (None, base's offset, delta) of a delta."""
        if offset not in self._ends:
            raise FormatError(f"needs an object at byte {offset}, where there is none")
        end = self._ends[offset]
        if not _HEADER_BYTES <= offset < end:
            raise FormatError(f"begins at byte {offset}, outside its pack")
        code, size_bytes, position = self._entry_header(offset, end)
        if size_bytes > OBJECT_LIMIT_BYTES:
            raise ObjectTooLarge(f"claims to hold {size_bytes} bytes")
        kind, base_offset = None, 0
        if code == _OFFSET_DELTA:
            distance, position = self._offset_varint(position, end)
            base_offset = offset - distance
        elif code == _NAME_DELTA:
            name = self._content[position : position + self._format.size_bytes]
            position += self._format.size_bytes
            if name not in self._by_oid:
                raise FormatError(f"is a delta of {name.hex()}, which is not in its pack")
            base_offset = self._by_oid[name]
        elif code in _KINDS:
            kind = _KINDS[code]
        else:
            raise FormatError(f"has the unknown type {code}")
        return kind, base_offset, self._inflate(position, end, size_bytes)

    def _entry_header(self, offset: int, end: int) -> tuple[int, int, int]:
        byte = self._content[offset]
        code, size_bytes, shift = (byte >> 4) & 7, byte & 15, 4
        position = offset + 1
        while byte & 0x80:
            if position >= end or shift > 56:
                raise FormatError("ends within its header")
            byte = self._content[position]
            size_bytes |= (byte & 0x7F) << shift
            shift += 7
            position += 1
        return code, size_bytes, position

    def _offset_varint(self, position: int, end: int) -> tuple[int, int]:
        value = -1
        while True:
            if position >= end:
                raise FormatError("ends within its delta offset")
            byte = self._content[position]
            position += 1
            value = ((value + 1) << 7) | (byte & 0x7F)
            if byte < 0x80:
                return value, position

    def _inflate(self, position: int, end: int, size_bytes: int) -> bytes:
        stream = zlib.decompressobj()
        body = stream.decompress(self._content[position:end], size_bytes + 1)
        if not stream.eof and len(body) == size_bytes:
            body += stream.decompress(stream.unconsumed_tail, 1)
        if len(body) != size_bytes or not stream.eof:
            raise FormatError(f"inflates to {len(body)} bytes instead of {size_bytes}")
        if stream.unused_data:
            raise FormatError("has bytes after its zlib stream")
        return body

"""The bytes of a pack: its header, its entries' headers, its compressed contents.

Format: gitformat-pack(5), "pack-*.pack files have the following format".
"""

import struct
import zlib
from typing import NamedTuple

from impl.durability.port import Bytes
from impl.objects.pack_errors import DamagedPack, ObjectTooLarge, UnsupportedVersion

HEADER_BYTES = 12
LARGEST_OBJECT_BYTES = 1 << 30
"""Objects are held in memory whole: a larger one is refused before it is inflated."""

COMMIT, TREE, BLOB, TAG = 1, 2, 3, 4
OFFSET_DELTA, REFERENCE_DELTA = 6, 7
TYPE_NAMES = {COMMIT: "commit", TREE: "tree", BLOB: "blob", TAG: "tag"}
TYPE_NUMBERS = {name: number for number, name in TYPE_NAMES.items()}

_MAGIC = b"PACK"
_VERSIONS = (2, 3)
_MOST_EXPANSION = 1032
"""zlib's documentation: deflate never expands by more than 1032 to 1."""
_INFLATE_STEP_BYTES = 1 << 16


class EntryHeader(NamedTuple):
    """What stands before an entry's compressed bytes.

    :ivar offset: where the entry starts in the pack.
    :ivar kind: COMMIT … TAG, OFFSET_DELTA or REFERENCE_DELTA.
    :ivar size_bytes: of the content, or of the delta, when inflated.
    :ivar data_offset: where its compressed bytes start.
    :ivar base: the base's offset for OFFSET_DELTA, its name for REFERENCE_DELTA, otherwise None.
    """

    offset: int
    kind: int
    size_bytes: int
    data_offset: int
    base: int | bytes | None


def encode_header(object_count: int) -> bytes:
    """The first 12 bytes of a pack of version 2."""
    return struct.pack(">4sII", _MAGIC, 2, object_count)


def decode_header(data: Bytes, path: str) -> int:
    """How many objects the pack says it has.

    :raises DamagedPack: too short, or no pack at all. :raises UnsupportedVersion: not 2 or 3.
    """
    if len(data) < HEADER_BYTES:
        raise DamagedPack(path, f"a pack of {len(data)} bytes has no header")
    magic, version, object_count = struct.unpack_from(">4sII", data)
    if magic != _MAGIC:
        raise DamagedPack(path, "it does not start with PACK")
    if version not in _VERSIONS:
        raise UnsupportedVersion(path, f"pack version {version}")
    return int(object_count)


def encode_entry_header(kind: int, size_bytes: int) -> bytes:
    """Type and size of an entry; what it is a delta of comes after it."""
    byte = kind << 4 | size_bytes & 0x0F
    size_bytes >>= 4
    encoded = bytearray()
    while size_bytes:
        encoded.append(byte | 0x80)
        byte = size_bytes & 0x7F
        size_bytes >>= 7
    encoded.append(byte)
    return bytes(encoded)


def encode_base_distance(distance: int) -> bytes:
    """How many bytes before an OFFSET_DELTA entry its base starts."""
    encoded = bytearray((distance & 0x7F,))
    distance >>= 7
    while distance:
        distance -= 1
        encoded.append(distance & 0x7F | 0x80)
        distance >>= 7
    encoded.reverse()
    return bytes(encoded)


def decode_entry_header(data: Bytes, offset: int, name_bytes: int, path: str) -> EntryHeader:
    """The header of the entry at `offset`, in packs whose names have `name_bytes` bytes.

    :raises DamagedPack: cut short, of an unknown type, or with its base not before it.
    """
    try:
        position, byte = offset + 1, data[offset]
        kind, size, shift = byte >> 4 & 7, byte & 0x0F, 4
        while byte & 0x80:
            byte = data[position]
            position += 1
            size |= (byte & 0x7F) << shift
            shift += 7
            if shift > 63:
                raise DamagedPack(path, f"the object at offset {offset} has an impossible size")
        base: int | bytes | None = None
        if kind == OFFSET_DELTA:
            base, position = _decode_base_offset(data, offset, position, path)
        elif kind == REFERENCE_DELTA:
            base = bytes(data[position : position + name_bytes])
            position += name_bytes
        elif kind not in TYPE_NAMES:
            raise DamagedPack(path, f"the object at offset {offset} has the unknown type {kind}")
    except IndexError:
        raise DamagedPack(path, f"it ends within the header of the object at {offset}") from None
    return EntryHeader(offset, kind, size, position, base)


def _decode_base_offset(data: Bytes, offset: int, position: int, path: str) -> tuple[int, int]:
    byte = data[position]
    position += 1
    distance = byte & 0x7F
    while byte & 0x80:
        byte = data[position]
        position += 1
        distance = (distance + 1) << 7 | byte & 0x7F
        if distance > offset:
            break
    if not 0 < distance <= offset - HEADER_BYTES:
        raise DamagedPack(path, f"the delta at offset {offset} has no base before it")
    return offset - distance, position


def inflate(data: Bytes, header: EntryHeader, end: int, path: str) -> tuple[bytes, int]:
    """An entry's inflated bytes, and the offset at which its compressed ones end.

    Never inflates more than the header's size and one byte, nor reads beyond `end`.

    :raises DamagedPack: not a zlib stream, cut short, or not of the header's size.
    :raises ObjectTooLarge: more than LARGEST_OBJECT_BYTES.
    """
    size, position = header.size_bytes, header.data_offset
    where = f"the object at offset {header.offset}"
    if size > (end - position) * _MOST_EXPANSION:
        raise DamagedPack(path, f"{where} claims {size} bytes, the pack is too short for them")
    if size > LARGEST_OBJECT_BYTES:
        raise ObjectTooLarge(path, header.offset, size, LARGEST_OBJECT_BYTES)
    engine = zlib.decompressobj()
    step = size + (size >> 10) + 64
    pieces: list[bytes] = []
    made = 0
    try:
        while not engine.eof and made <= size:
            chunk: Bytes = engine.unconsumed_tail
            if not chunk:
                chunk = data[position : min(position + step, end)]
                if not len(chunk):
                    raise DamagedPack(path, f"it ends within {where}")
                position += len(chunk)
                step = _INFLATE_STEP_BYTES
            pieces.append(engine.decompress(chunk, size + 1 - made))
            made += len(pieces[-1])
    except zlib.error as error:
        raise DamagedPack(path, f"{where} does not inflate ({error})") from None
    if made != size:
        raise DamagedPack(path, f"{where} does not have the {size} bytes that it claims")
    return b"".join(pieces), position - len(engine.unused_data)

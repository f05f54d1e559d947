"""Reachability bitmaps: for chosen commits, which objects of a pack can be reached from them.

Positions in a bitmap count the objects in pack order: by offset in a pack, in pseudo-pack order
in a multi-pack-index. Format: gitformat-bitmap(5), version 1.
"""

import struct
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from impl.durability.port import Bytes
from impl.objects.ewah import decode_ewah, encode_ewah, ewah_size_bytes
from impl.objects.hashes import HashAlgorithm
from impl.objects.pack_errors import DamagedBitmap, UnsupportedVersion

_MAGIC = b"BITM"
_HEADER_BYTES = 12
_FULL_CLOSURE = 0x1
_HASH_CACHE = 0x4
_LOOKUP_TABLE = 0x10
_KNOWN_OPTIONS = _FULL_CLOSURE | _HASH_CACHE | _LOOKUP_TABLE
_LOOKUP_ENTRY_BYTES = 16
_ENTRY_HEADER_BYTES = 6
_FURTHEST_XOR = 160
_XOR_CANDIDATES = 3

TYPE_ORDER = ("commit", "tree", "blob", "tag")
"""The order of the four bitmaps that say which object has which type."""


class BitmapContent(NamedTuple):
    """What a .bitmap says.

    :ivar pack_checksum: of the pack, or of the multi-pack-index, that it belongs to.
    :ivar types: TYPE_ORDER's four sets, in pack order.
    :ivar reachable: for each chosen commit, by its position in *name* order: the objects that it
        reaches, itself included, in pack order.
    :ivar path_hashes: for each object, in name order, the hash of the path at which it was found
        (see `path_hash`); None if the file has none.
    """

    pack_checksum: bytes
    types: tuple[int, int, int, int]
    reachable: Mapping[int, int]
    path_hashes: Sequence[int] | None = None


def path_hash(path: bytes) -> int:
    """Where paths that end alike get numbers that are near: git's name-hash, 32 bits."""
    value = 0
    for byte in path:
        if byte not in b"\t\n\v\f\r ":
            value = ((value >> 2) + (byte << 24)) & 0xFFFFFFFF
    return value


def encode_bitmap(content: BitmapContent, algorithm: HashAlgorithm) -> bytes:
    """The .bitmap file. Each commit's set is told as its difference from an earlier one's where
    that takes fewer bytes."""
    options = _FULL_CLOSURE | (0 if content.path_hashes is None else _HASH_CACHE)
    parts = [
        struct.pack(">4sHHI", _MAGIC, 1, options, len(content.reachable)),
        content.pack_checksum,
        *(encode_ewah(bits) for bits in content.types),
    ]
    earlier: list[int] = []
    for position, bits in content.reachable.items():
        distance, encoded = 0, encode_ewah(bits)
        for candidate in range(1, min(len(earlier), _XOR_CANDIDATES) + 1):
            difference = encode_ewah(bits ^ earlier[-candidate])
            if len(difference) < len(encoded):
                distance, encoded = candidate, difference
        parts.append(struct.pack(">IBB", position, distance, 0) + encoded)
        earlier.append(bits)
    if content.path_hashes is not None:
        parts.append(struct.pack(f">{len(content.path_hashes)}I", *content.path_hashes))
    body = b"".join(parts)
    return body + algorithm.new(body).digest()


def decode_bitmap(
    data: Bytes, count: int, checksum: bytes, algorithm: HashAlgorithm, path: str
) -> BitmapContent:
    """The content of the .bitmap of `count` objects whose pack (or midx) has `checksum`.

    :raises DamagedBitmap: cut short, of another pack, or contradicting itself.
    :raises UnsupportedVersion: not version 1, or with an option that is not known.
    """
    width = algorithm.size_bytes
    if len(data) < _HEADER_BYTES + 2 * width:
        raise DamagedBitmap(path, f"a bitmap file of {len(data)} bytes is cut short")
    magic, version, options, entry_count = struct.unpack_from(">4sHHI", data)
    if magic != _MAGIC:
        raise DamagedBitmap(path, "it does not start with BITM")
    if algorithm.new(data[:-width]).digest() != data[-width:]:
        raise DamagedBitmap(path, "its checksum does not match its content")
    if version != 1 or not options & _FULL_CLOSURE or options & ~_KNOWN_OPTIONS:
        raise UnsupportedVersion(path, f"bitmap version {version} with options {options:#x}")
    if data[_HEADER_BYTES : _HEADER_BYTES + width] != checksum:
        raise DamagedBitmap(path, "it belongs to another pack")
    body = data[:-width]
    position = _HEADER_BYTES + width
    types = []
    for _ in TYPE_ORDER:
        types.append(decode_ewah(body, position, count, path))
        position += ewah_size_bytes(body, position, path)
    reachable, position = _decode_entries(body, position, entry_count, count, path)
    if options & _LOOKUP_TABLE:
        body = body[: len(body) - entry_count * _LOOKUP_ENTRY_BYTES]
    hashes = None
    if options & _HASH_CACHE:
        if len(body) - position != 4 * count:
            raise DamagedBitmap(path, "it does not have one path hash for each object")
        hashes = struct.unpack_from(f">{count}I", body, position)
    return BitmapContent(checksum, (types[0], types[1], types[2], types[3]), reachable, hashes)


def _decode_entries(
    body: Bytes, position: int, entry_count: int, count: int, path: str
) -> tuple[dict[int, int], int]:
    reachable: dict[int, int] = {}
    in_order: list[int] = []
    for number in range(entry_count):
        if position + _ENTRY_HEADER_BYTES > len(body):
            raise DamagedBitmap(path, f"it ends before bitmap {number} of {entry_count}")
        commit, distance, _ = struct.unpack_from(">IBB", body, position)
        position += _ENTRY_HEADER_BYTES
        if commit >= count or distance > min(number, _FURTHEST_XOR):
            raise DamagedBitmap(path, f"bitmap {number} names what is not there")
        bits = decode_ewah(body, position, count, path)
        position += ewah_size_bytes(body, position, path)
        if distance:
            bits ^= in_order[-distance]
        in_order.append(bits)
        reachable[commit] = bits
    return reachable, position

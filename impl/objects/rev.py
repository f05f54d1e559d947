"""Reverse indexes: a pack's objects by their place in the pack.

Format: gitformat-pack(5), "pack-*.rev files".
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from impl.durability.port import Bytes
from impl.objects.hashes import HashAlgorithm
from impl.objects.pack_errors import DamagedReverseIndex, UnsupportedVersion

_MAGIC = b"RIDX"
_HEADER_BYTES = 12


def encode_reverse_index(
    by_offset: Sequence[int], pack_checksum: bytes, algorithm: HashAlgorithm
) -> bytes:
    """The .rev of a pack: `by_offset` has positions in the .idx, ordered by pack offset."""
    header = struct.pack(">4sII", _MAGIC, 1, algorithm.index_version)
    content = header + struct.pack(f">{len(by_offset)}I", *by_offset) + pack_checksum
    return content + algorithm.new(content).digest()


def decode_reverse_index(
    data: Bytes, count: int, pack_checksum: bytes, algorithm: HashAlgorithm, path: str
) -> Sequence[int]:
    """Positions in the .idx of `count` objects, ordered by pack offset.

    :raises DamagedReverseIndex: wrong size, checksum, pack, or not each position once.
    :raises UnsupportedVersion: a version or a hash algorithm other than the pack's.
    """
    width = algorithm.size_bytes
    if len(data) != _HEADER_BYTES + 4 * count + 2 * width:
        raise DamagedReverseIndex(path, f"{len(data)} bytes are not those of {count} objects")
    magic, version, hash_version = struct.unpack_from(">4sII", data)
    if magic != _MAGIC:
        raise DamagedReverseIndex(path, "it does not start with RIDX")
    if version != 1 or hash_version != algorithm.index_version:
        raise UnsupportedVersion(path, f"reverse index version {version}, hash {hash_version}")
    if algorithm.new(data[:-width]).digest() != data[-width:]:
        raise DamagedReverseIndex(path, "its checksum does not match its content")
    if data[-2 * width : -width] != pack_checksum:
        raise DamagedReverseIndex(path, "it belongs to another pack")
    order: Sequence[int] = struct.unpack_from(f">{count}I", data, _HEADER_BYTES)
    if sorted(order) != list(range(count)):
        raise DamagedReverseIndex(path, "it does not have each object once")
    return order

"""Pack index files, versions 1 and 2 (gitformat-pack(5), "pack-*.idx FILES")."""

import struct
from dataclasses import dataclass
from itertools import pairwise

from crashsim.oracles.git.damage import Damage, FormatError, classify
from crashsim.oracles.git.objects import ObjectFormat

_V2_MAGIC = b"\xfftOc\x00\x00\x00\x02"
_FANOUT_BYTES = 1024
_LARGE_OFFSET = 0x80000000


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """Where one object is in its pack.

    :ivar crc32: of the packed bytes; None in version 1, which has none.
    """

    oid: bytes
    offset: int
    crc32: int | None


@dataclass(frozen=True, slots=True)
class PackIndex:
    """A whole and self-consistent .idx file.

    :ivar entries: in the order of their names.
    :ivar pack_checksum: the trailer that the pack must have.
    """

    entries: tuple[IndexEntry, ...]
    pack_checksum: bytes


def parse_pack_index(content: bytes, object_format: ObjectFormat) -> PackIndex | Damage:
    """Read an .idx file; its own checksum and the order of its names are checked."""
    try:
        return _parse(content, object_format)
    except (FormatError, struct.error) as error:
        return classify(content, str(error))


def parse_fanout(content: bytes, start: int) -> tuple[int, ...]:
    """The 256 cumulative counts at `start`. Raises FormatError when they are not monotonic."""
    fanout = struct.unpack_from(">256I", content, start)
    if any(left > right for left, right in pairwise(fanout)):
        raise FormatError("has a fan-out table that is not monotonic")
    return fanout


def check_names(oids: list[bytes], fanout: tuple[int, ...]) -> None:
    """Raise FormatError when names are not strictly sorted or not where the fan-out says."""
    for left, right in pairwise(oids):
        if left >= right:
            raise FormatError("has object names that are not sorted")
    counts = [0] * 256
    for oid in oids:
        counts[oid[0]] += 1
    total = 0
    for first_byte, count in enumerate(counts):
        total += count
        if fanout[first_byte] != total:
            raise FormatError("has a fan-out table that does not fit its names")


def _parse(content: bytes, object_format: ObjectFormat) -> PackIndex:
    oid_bytes = object_format.size_bytes
    if content[:4] == _V2_MAGIC[:4]:
        if content[:8] != _V2_MAGIC:
            raise FormatError("has an unknown pack index version")
        oids, offsets, crcs = _tables_v2(content, oid_bytes)
    else:
        oids, offsets, crcs = _tables_v1(content, oid_bytes)
    body_bytes = len(content) - oid_bytes
    if object_format.digest(content[:body_bytes]) != content[body_bytes:]:
        raise FormatError("has a bad checksum")
    entries = tuple(map(IndexEntry, oids, offsets, crcs))
    return PackIndex(entries, content[body_bytes - oid_bytes : body_bytes])


def _tables_v2(content: bytes, oid_bytes: int) -> tuple[list[bytes], list[int], list[int | None]]:
    if len(content) < 8 + _FANOUT_BYTES + 2 * oid_bytes:
        raise FormatError("is too small for a pack index")
    fanout = parse_fanout(content, 8)
    count = fanout[255]
    names_start = 8 + _FANOUT_BYTES
    crc_start = names_start + count * oid_bytes
    offset_start = crc_start + 4 * count
    large_start = offset_start + 4 * count
    large_bytes = len(content) - 2 * oid_bytes - large_start
    if large_bytes < 0 or large_bytes % 8:
        raise FormatError(f"has the wrong size for {count} objects")
    oids = [content[at : at + oid_bytes] for at in range(names_start, crc_start, oid_bytes)]
    check_names(oids, fanout)
    crcs: list[int | None] = list(struct.unpack_from(f">{count}I", content, crc_start))
    large = struct.unpack_from(f">{large_bytes // 8}Q", content, large_start)
    offsets = []
    for offset in struct.unpack_from(f">{count}I", content, offset_start):
        if offset & _LARGE_OFFSET:
            position = offset & ~_LARGE_OFFSET
            if position >= len(large):
                raise FormatError("names a large offset that it does not have")
            offset = large[position]
        offsets.append(offset)
    return oids, offsets, crcs


def _tables_v1(content: bytes, oid_bytes: int) -> tuple[list[bytes], list[int], list[int | None]]:
    if len(content) < _FANOUT_BYTES + 2 * oid_bytes:
        raise FormatError("is too small for a pack index")
    fanout = parse_fanout(content, 0)
    count = fanout[255]
    if len(content) != _FANOUT_BYTES + count * (4 + oid_bytes) + 2 * oid_bytes:
        raise FormatError(f"has the wrong size for {count} objects")
    oids, offsets = [], []
    for record in range(count):
        at = _FANOUT_BYTES + record * (4 + oid_bytes)
        offsets.append(struct.unpack_from(">I", content, at)[0])
        oids.append(content[at + 4 : at + 4 + oid_bytes])
    check_names(oids, fanout)
    crcs: list[int | None] = [None] * count
    return oids, offsets, crcs

"""The multi-pack-index (gitformat-pack(5), "multi-pack-index (MIDX) FILES")."""

import struct
from collections.abc import Mapping
from dataclasses import dataclass

from crashsim.oracles.git.chunks import oid_table, read_chunks
from crashsim.oracles.git.damage import FormatError
from crashsim.oracles.git.objects import SHA1, ObjectFormat
from crashsim.oracles.git.pack_index import PackIndex, check_names, parse_fanout

_HEADER_BYTES = 12
_LARGE_OFFSET = 0x80000000


@dataclass(frozen=True, slots=True)
class MidxEntry:
    """Which copy of an object git reads: in `packs[pack]`, at `offset`."""

    oid: bytes
    pack: int
    offset: int


@dataclass(frozen=True, slots=True)
class Midx:
    """A multi-pack-index that git accepts.

    :ivar packs: names of packs without extension.
    :ivar checksum: the trailer: its bitmap is named after it.
    :ivar fault: what is wrong with it although git accepts it; empty when nothing is.
    """

    packs: tuple[str, ...]
    entries: tuple[MidxEntry, ...]
    checksum: bytes
    fault: str = ""


@dataclass(frozen=True, slots=True)
class RefusedMidx:
    """A multi-pack-index that git does not accept.

    :ivar is_fatal: git gives up (True), or says so and reads the packs' own indexes (False).
    """

    is_fatal: bool
    reason: str


def parse_midx(content: bytes, object_format: ObjectFormat) -> Midx | RefusedMidx:
    """Read it as git 2.39 to 2.47 do: these give up on a bad signature, version or table."""
    oid_bytes = object_format.size_bytes
    if len(content) < _HEADER_BYTES + oid_bytes:
        return RefusedMidx(False, f"is too small: {len(content)} bytes")
    if content[:4] != b"MIDX":
        return RefusedMidx(True, f"has the signature 0x{content[:4].hex()}")
    version, hash_version, count = content[4], content[5], content[6]
    if version not in (1, 2):
        return RefusedMidx(True, f"has the unknown version {version}")
    if hash_version != (1 if object_format is SHA1 else 2):
        return RefusedMidx(False, f"is for the hash version {hash_version}")
    try:
        chunks = read_chunks(content, _HEADER_BYTES, count, oid_bytes)
    except FormatError as error:
        return RefusedMidx(False, str(error))
    try:
        packs, entries = _tables(chunks, struct.unpack_from(">I", content, 8)[0], oid_bytes)
    except (FormatError, struct.error) as error:
        return RefusedMidx(True, str(error))
    body, checksum = content[:-oid_bytes], content[-oid_bytes:]
    fault = "" if object_format.digest(body) == checksum else "has a bad checksum"
    return Midx(packs, entries, checksum, fault)


def _tables(
    chunks: Mapping[bytes, bytes], pack_count: int, oid_bytes: int
) -> tuple[tuple[str, ...], tuple[MidxEntry, ...]]:
    missing = [name for name in (b"PNAM", b"OIDF", b"OIDL", b"OOFF") if name not in chunks]
    if missing:
        raise FormatError(f"has no chunk {missing[0].decode()}")
    names = chunks[b"PNAM"].split(b"\0")[:-1]
    while names and not names[-1]:
        names.pop()
    if len(names) != pack_count or names != sorted(set(names)) or b"" in names:
        raise FormatError("has pack names that are out of order")
    if len(chunks[b"OIDF"]) != 1024:
        raise FormatError("has a fan-out table of the wrong size")
    fanout = parse_fanout(chunks[b"OIDF"], 0)
    oids = oid_table(chunks[b"OIDL"], fanout[255], oid_bytes)
    check_names(oids, fanout)
    places = _places(chunks[b"OOFF"], chunks.get(b"LOFF", b""), len(oids))
    if any(pack >= pack_count for pack, _ in places):
        raise FormatError("has an object in a pack that it does not name")
    packs = tuple(
        name.decode("utf-8", "surrogateescape").removesuffix(".idx").removesuffix(".pack")
        for name in names
    )
    entries = (MidxEntry(oid, *place) for oid, place in zip(oids, places, strict=True))
    return packs, tuple(entries)


def _places(ooff: bytes, loff: bytes, count: int) -> list[tuple[int, int]]:
    if len(ooff) != 8 * count:
        raise FormatError(f"has {len(ooff)} bytes of offsets for {count} objects")
    large = struct.unpack(f">{len(loff) // 8}Q", loff[: len(loff) // 8 * 8])
    places = []
    for at in range(0, len(ooff), 8):
        pack, offset = struct.unpack_from(">II", ooff, at)
        if large and offset & _LARGE_OFFSET:
            position = offset & ~_LARGE_OFFSET
            if position >= len(large):
                raise FormatError("names a large offset that it does not have")
            offset = large[position]
        places.append((pack, offset))
    return places


def contradiction(midx: Midx, indexes: Mapping[str, PackIndex]) -> str:
    """What the midx says otherwise than the indexes of its packs; empty when nothing.

    Packs that are not there are no contradiction: `git multi-pack-index expire` unlinks packs
    before it rewrites the midx, and git does without them.
    """
    places = {
        name: {entry.oid: entry.offset for entry in indexes[name].entries}
        for name in midx.packs
        if name in indexes
    }
    for entry in midx.entries:
        name = midx.packs[entry.pack]
        if name in places and places[name].get(entry.oid) != entry.offset:
            return f"has {entry.oid.hex()} at the wrong place in {name}"
    indexed = {entry.oid for entry in midx.entries}
    for name, objects in places.items():
        for oid in objects:
            if oid not in indexed:
                return f"does not have {oid.hex()}, which is in {name}"
    return ""


def hidden_objects(midx: Midx, present: frozenset[str]) -> frozenset[bytes]:
    """Objects that git does not find in the midx's packs, since it looks in an absent one.

    git never looks into the own index of a pack that its midx names.
    """
    absent = {number for number, name in enumerate(midx.packs) if name not in present}
    if not absent:
        return frozenset()
    return frozenset(entry.oid for entry in midx.entries if entry.pack in absent)

"""The index (gitformat-index(5)), versions 2 to 4, split or not."""

import hashlib
import struct
from dataclasses import dataclass

from crashsim.oracles.git.damage import Damage, FormatError, classify
from crashsim.oracles.git.ewah import read_ewah
from crashsim.oracles.git.objects import ObjectFormat

_STAT_BYTES = 40
_EXTENDED = 0x4000
_NAME_MASK = 0x0FFF


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One entry, without what it remembers of the file's stat.

    :ivar stage: 0, or 1 to 3 in a conflict.
    :ivar oid: the raw object name.
    """

    path: bytes
    stage: int
    mode: int
    oid: bytes


@dataclass(frozen=True, slots=True)
class Index:
    """A parsed index.

    :ivar entries: in the order of the file.
    :ivar cached_trees: raw names of the trees in the TREE extension.
    :ivar shared: raw name of the shared index that this one builds on; empty where it does not.
    """

    entries: tuple[IndexEntry, ...]
    cached_trees: tuple[bytes, ...] = ()
    shared: bytes = b""
    deleted: tuple[int, ...] = ()
    replaced: tuple[int, ...] = ()

    def fingerprint(self) -> str:
        """A hash of (path, stage, mode, object) of all entries: stat data does not matter."""
        digest = hashlib.blake2b(digest_size=16)
        for entry in sorted(self.entries, key=lambda entry: (entry.path, entry.stage)):
            digest.update(b"%o %d %s %s\0" % (entry.mode, entry.stage, entry.oid, entry.path))
        return digest.hexdigest()


def parse_index(content: bytes, object_format: ObjectFormat) -> Index | Damage:
    """Read one index file. A trailer of zeros (index.skipHash) stands for no checksum."""
    try:
        return _parse(content, object_format)
    except (FormatError, struct.error) as error:
        return classify(content, str(error))


def merge_shared(index: Index, shared: Index) -> Index:
    """A split index together with its shared one. Raises FormatError when they do not fit."""
    base: list[IndexEntry | None] = list(shared.entries)
    own = list(index.entries)
    if len(index.replaced) > len(own):
        raise FormatError("replaces more shared entries than it has")
    for position, entry in zip(index.replaced, own, strict=False):
        old = base[position] if position < len(base) else None
        if old is None or entry.path:
            raise FormatError(f"replaces entry {position} of its shared index wrongly")
        base[position] = IndexEntry(old.path, entry.stage, entry.mode, entry.oid)
    for position in index.deleted:
        if position >= len(base):
            raise FormatError(f"deletes entry {position} of its shared index, which has none")
        base[position] = None
    kept = [entry for entry in base if entry is not None]
    return Index((*kept, *own[len(index.replaced) :]), index.cached_trees)


def _parse(content: bytes, object_format: ObjectFormat) -> Index:
    oid_bytes = object_format.size_bytes
    end = len(content) - oid_bytes
    if end < 12 or content[:4] != b"DIRC":
        raise FormatError("has no index signature")
    version, count = struct.unpack_from(">II", content, 4)
    if version not in (2, 3, 4):
        raise FormatError(f"has the unknown index version {version}")
    trailer = content[end:]
    if trailer.strip(b"\0") and object_format.digest(content[:end]) != trailer:
        raise FormatError("has a bad checksum")
    entries = []
    position = 12
    previous = b""
    for _ in range(count):
        entry, position = _entry(content, position, end, version, previous, oid_bytes)
        previous = entry.path
        entries.append(entry)
    return _with_extensions(content, position, end, tuple(entries), oid_bytes)


def _entry(
    content: bytes, start: int, end: int, version: int, previous: bytes, oid_bytes: int
) -> tuple[IndexEntry, int]:
    position = start + _STAT_BYTES + oid_bytes + 2
    if position >= end:
        raise FormatError("ends within its entries")
    mode = struct.unpack_from(">I", content, start + 24)[0]
    oid = content[start + _STAT_BYTES : position - 2]
    flags = struct.unpack_from(">H", content, position - 2)[0]
    if flags & _EXTENDED:
        if version < 3:
            raise FormatError("has extended flags in version 2")
        position += 2
    shared_prefix = b""
    if version == 4:
        stripped, position = _varint(content, position, end)
        if stripped > len(previous):
            raise FormatError("strips more of a path than there is")
        shared_prefix = previous[: len(previous) - stripped]
    name_end = content.find(b"\0", position, end)
    if name_end < 0:
        raise FormatError("ends within a path")
    path = shared_prefix + content[position:name_end]
    if min(len(path), _NAME_MASK) != flags & _NAME_MASK:
        raise FormatError(f"has a path of {len(path)} bytes that should be {flags & _NAME_MASK}")
    entry = IndexEntry(path, (flags >> 12) & 3, mode, oid)
    if version == 4:
        return entry, name_end + 1
    return entry, start + (name_end - start + 8) // 8 * 8


def _varint(content: bytes, position: int, end: int) -> tuple[int, int]:
    value = -1
    while True:
        if position >= end:
            raise FormatError("ends within a path")
        byte = content[position]
        position += 1
        value = ((value + 1) << 7) | (byte & 0x7F)
        if byte < 0x80:
            return value, position


def _with_extensions(
    content: bytes, position: int, end: int, entries: tuple[IndexEntry, ...], oid_bytes: int
) -> Index:
    cached_trees: tuple[bytes, ...] = ()
    shared = b""
    deleted: tuple[int, ...] = ()
    replaced: tuple[int, ...] = ()
    while position < end:
        if position + 8 > end:
            raise FormatError("ends within an extension")
        name = content[position : position + 4]
        size_bytes = struct.unpack_from(">I", content, position + 4)[0]
        start, position = position + 8, position + 8 + size_bytes
        if position > end:
            raise FormatError(f"ends within its extension {name!r}")
        if name == b"TREE":
            cached_trees = _cached_trees(content[start:position], oid_bytes)
        elif name == b"link":
            shared, deleted, replaced = _link(content, start, position, oid_bytes)
        elif not name[:1].isupper() and name != b"sdir":
            raise FormatError(f"needs the unknown extension {name!r}")
    return Index(entries, cached_trees, shared, deleted, replaced)


def _cached_trees(data: bytes, oid_bytes: int) -> tuple[bytes, ...]:
    trees = []
    position = 0
    while position < len(data):
        name_end = data.find(b"\0", position)
        line_end = data.find(b"\n", name_end)
        count, _, subtrees = data[name_end + 1 : line_end].partition(b" ")
        if name_end < 0 or line_end < 0 or not subtrees.isdigit():
            raise FormatError("has a bad TREE extension")
        position = line_end + 1
        if not count.startswith(b"-"):
            oid = data[position : position + oid_bytes]
            position += oid_bytes
            if len(oid) != oid_bytes:
                raise FormatError("has a TREE extension that ends within a name")
            trees.append(oid)
    return tuple(trees)


def _link(
    content: bytes, start: int, end: int, oid_bytes: int
) -> tuple[bytes, tuple[int, ...], tuple[int, ...]]:
    shared = content[start : start + oid_bytes]
    position = start + oid_bytes
    if position > end:
        raise FormatError("has a link extension that is too small")
    if position == end:
        return shared, (), ()
    deleted, position = read_ewah(content, position, end)
    replaced, position = read_ewah(content, position, end)
    return shared, tuple(deleted), tuple(replaced)

"""The index file's bytes: versions 2 to 4 read, 2 to 4 written. No I/O.

Source: gitformat-index(5). Extensions: TREE (cached trees) and `link` (split index) are understood,
REUC is kept as it is, other optional ones are dropped: they only save time.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from impl.durability.port import Bytes
from impl.errors import CorruptIndex
from impl.index_entry import IndexEntry, StatData
from impl.index_trees import CachedTree, format_trees, parse_trees
from impl.objects.hashes import HashAlgorithm

VERSIONS = (2, 3, 4)

_SIGNATURE = b"DIRC"
_HEADER = struct.Struct(">4sII")
_STAT_WORDS = 10
_ASSUME_VALID = 0x8000
_EXTENDED = 0x4000
_STAGE_SHIFT = 12
_NAME_LENGTH_MAX = 0x0FFF
_SKIP_WORKTREE = 0x4000
_INTENT_TO_ADD = 0x2000
_WORD = 0xFFFFFFFF
_MODES = frozenset({0o100644, 0o100755, 0o120000, 0o160000})


class SplitLink(NamedTuple):
    """The `link` extension: this index is to be laid over a shared one.

    :ivar base: the shared index' checksum, which is its name; empty if there is none.
    :ivar bitmaps: the rest of the extension: which of its entries are deleted, which replaced.
    """

    base: str
    bitmaps: bytes


class ParsedIndex(NamedTuple):
    """The content of one index file.

    :ivar entries: in order; in a split index some have empty paths (see impl.index_split).
    :ivar trees: the cached trees, if the file has them.
    :ivar resolve_undo: the REUC extension's bytes.
    """

    version: int
    entries: list[IndexEntry]
    trees: CachedTree | None
    link: SplitLink | None
    resolve_undo: bytes


def parse_index(
    data: Bytes, algorithm: HashAlgorithm, path: str, *, skip_hash: bool = False
) -> ParsedIndex:
    """Take an index file apart. Raises CorruptIndex, saying what is wrong with it.

    :param skip_hash: zeros in place of the checksum mean that there is none (index.skipHash).
        git takes them so under any configuration; but zeros are also what a crash leaves at the
        end of a file, and then what is before them is not to be trusted either.
    """
    content = bytes(data)
    size = algorithm.size_bytes
    if len(content) < _HEADER.size + size:
        raise CorruptIndex(f"{path}: index file smaller than expected ({len(content)} bytes)")
    signature, version, count = _HEADER.unpack_from(content)
    if signature != _SIGNATURE:
        raise CorruptIndex(f"{path}: bad signature 0x{signature.hex()}")
    if version not in VERSIONS:
        raise CorruptIndex(f"{path}: bad index version {version}")
    end = len(content) - size
    checksum = content[end:]
    if not (skip_hash or any(checksum)):
        raise CorruptIndex(
            f"{path}: its end is zeros: a crash tore it, or index.skipHash was set when it was "
            "written (then set it)"
        )
    if any(checksum) and algorithm.new(memoryview(content)[:end]).digest() != checksum:
        raise CorruptIndex(f"{path}: bad index file checksum")
    try:
        entries, position = _parse_entries(content, end, version, count, algorithm)
        extensions = _parse_extensions(content, position, end)
    except (struct.error, ValueError, IndexError) as error:
        raise CorruptIndex(f"{path}: malformed index file: {error}") from None
    link = extensions.get(b"link")
    trees = extensions.get(b"TREE")
    try:
        return ParsedIndex(
            version,
            entries,
            None if trees is None else parse_trees(trees, algorithm),
            None if link is None else _parse_link(link, size),
            extensions.get(b"REUC", b""),
        )
    except ValueError as error:
        raise CorruptIndex(f"{path}: malformed index extension: {error}") from None


def _parse_entries(
    content: bytes, end: int, version: int, count: int, algorithm: HashAlgorithm
) -> tuple[list[IndexEntry], int]:
    """The entries, and where the extensions begin."""
    fixed = struct.Struct(f">{_STAT_WORDS}I{algorithm.size_bytes}sH")
    if count * (fixed.size + 2) > end:
        raise ValueError(f"it claims to have {count} entries")
    null = bytes(algorithm.size_bytes)
    entries: list[IndexEntry] = []
    position = _HEADER.size
    previous = b""
    last = (b"", -1)
    for _ in range(count):
        start = position
        *words, name, flags = fixed.unpack_from(content, position)
        position += fixed.size
        extended = 0
        if flags & _EXTENDED:
            if version == 2:
                raise ValueError("extended flags in version 2")
            (extended,) = struct.unpack_from(">H", content, position)
            position += 2
        path, position = _parse_path(content, position, end, version, previous)
        if version != 4:
            position = start + (position - start + 7) // 8 * 8
        if path:  # Entries that replace ones of a shared index have none, and so no order.
            _check_path_length(path, flags)
            if (path, flags >> _STAGE_SHIFT & 3) <= last:
                raise ValueError(f"unordered entries at {path!r}")
            last = (path, flags >> _STAGE_SHIFT & 3)
        previous = path
        if words[6] not in _MODES or name == null:
            raise ValueError(f"{path!r} has mode {words[6]:o} and the object {name.hex()}")
        entries.append(_make_entry(words, name.hex(), flags, extended, path))
    if position > end:
        raise ValueError("entries reach into the checksum")
    return entries, position


def _parse_path(
    content: bytes, position: int, end: int, version: int, previous: bytes
) -> tuple[bytes, int]:
    """A path, and the position after its NUL. Version 4 leaves out what it shares with the last."""
    kept = 0
    if version == 4:
        stripped, position = _parse_varint(content, position)
        kept = len(previous) - stripped
        if kept < 0:
            raise ValueError("a path leaves out more than the path before it has")
    nul = content.index(b"\0", position, end)
    return previous[:kept] + content[position:nul], nul + 1


def _check_path_length(path: bytes, flags: int) -> None:
    length = flags & _NAME_LENGTH_MAX
    if min(len(path), _NAME_LENGTH_MAX) != length:
        raise ValueError(f"a path is {len(path)} bytes long, not {length}")


def _make_entry(
    words: Sequence[int], name: str, flags: int, extended: int, path: bytes
) -> IndexEntry:
    stat = StatData(*words[:6], *words[7:10])
    return IndexEntry(
        path,
        words[6],
        name,
        stat,
        flags >> _STAGE_SHIFT & 3,
        bool(flags & _ASSUME_VALID),
        bool(extended & _SKIP_WORKTREE),
        bool(extended & _INTENT_TO_ADD),
    )


def _parse_varint(content: bytes, position: int) -> tuple[int, int]:
    """The variable width number of version 4, as in pack offsets."""
    byte = content[position]
    value = byte & 0x7F
    while byte & 0x80:
        position += 1
        byte = content[position]
        value = (value + 1 << 7) | (byte & 0x7F)
        if value > _WORD:
            raise ValueError("a number does not fit in 32 bits")
    return value, position + 1


def _format_varint(value: int) -> bytes:
    digits = [value & 0x7F]
    while value := value >> 7:
        value -= 1
        digits.append(0x80 | value & 0x7F)
    return bytes(reversed(digits))


def _parse_extensions(content: bytes, position: int, end: int) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    while position < end:
        signature, length = struct.unpack_from(">4sI", content, position)
        position += 8
        if position + length > end:
            raise ValueError(f"extension {signature!r} is cut off")
        if signature != b"link" and not signature[:1].isupper():
            raise ValueError(f"it uses extension {signature!r}, which this store does not know")
        found[signature] = content[position : position + length]
        position += length
    return found


def _parse_link(data: bytes, size: int) -> SplitLink:
    if len(data) < size:
        raise ValueError("the link to the shared index is cut off")
    base = data[:size]
    return SplitLink(base.hex() if any(base) else "", data[size:])


def format_index(
    entries: Sequence[IndexEntry],
    algorithm: HashAlgorithm,
    *,
    version: int = 2,
    trees: CachedTree | None = None,
    resolve_undo: bytes = b"",
    skip_hash: bool = False,
) -> bytes:
    """The bytes of an index of entries that are in order.

    :param version: 2 becomes 3 where an entry has flags that only 3 and 4 can hold.
    :param skip_hash: end with zeros in place of a checksum (index.skipHash).
    """
    if version < 4:
        extended = any(entry.skip_worktree or entry.intent_to_add for entry in entries)
        version = 3 if extended else 2
    fixed = struct.Struct(f">{_STAT_WORDS}I{algorithm.size_bytes}sH")
    parts = [_HEADER.pack(_SIGNATURE, version, len(entries))]
    previous = b""
    for entry in entries:
        parts.append(_format_entry(entry, version, previous, fixed))
        previous = entry.path
    for signature, data in (
        (b"TREE", b"" if trees is None else format_trees(trees)),
        (b"REUC", resolve_undo),
    ):
        if data:
            parts.append(struct.pack(">4sI", signature, len(data)) + data)
    content = b"".join(parts)
    checksum = bytes(algorithm.size_bytes) if skip_hash else algorithm.new(content).digest()
    return content + checksum


def _format_entry(entry: IndexEntry, version: int, previous: bytes, fixed: struct.Struct) -> bytes:
    stat = entry.stat
    flags = entry.stage << _STAGE_SHIFT | min(len(entry.path), _NAME_LENGTH_MAX)
    flags |= _ASSUME_VALID if entry.assume_valid else 0
    extended = _SKIP_WORKTREE if entry.skip_worktree else 0
    extended |= _INTENT_TO_ADD if entry.intent_to_add else 0
    if extended:
        flags |= _EXTENDED
    name = bytes.fromhex(entry.object_name)
    data = fixed.pack(*stat[:6], entry.mode, *stat[6:], name, flags)
    if extended:
        data += struct.pack(">H", extended)
    if version == 4:
        kept = _common_length(previous, entry.path)
        return data + _format_varint(len(previous) - kept) + entry.path[kept:] + b"\0"
    data += entry.path
    return data + bytes(8 - len(data) % 8)


def _common_length(first: bytes, second: bytes) -> int:
    """Of the bytes with which both begin."""
    pairs = zip(first, second, strict=False)
    return next((at for at, (a, b) in enumerate(pairs) if a != b), min(len(first), len(second)))

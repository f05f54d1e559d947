"""Files beside a pack that git could do without: .rev and .bitmap.

git falls back silently or with an error line when it refuses one of these, which is no violation.
It checks no checksum when it opens one, so a damaged file that it does *not* refuse gives wrong
answers. (gitformat-pack(5), "pack-*.rev files"; gitformat-bitmap(5).)
"""

import struct

from crashsim.oracles.git.damage import FormatError
from crashsim.oracles.git.ewah import skip_ewah
from crashsim.oracles.git.objects import SHA1, ObjectFormat
from crashsim.oracles.git.pack_index import PackIndex

_REV_HEADER_BYTES = 12
_BITMAP_HEADER_BYTES = 12
_TYPE_BITMAPS = 4
_FULL_DAG, _HASH_CACHE, _LOOKUP_TABLE = 0x1, 0x4, 0x10
_LOOKUP_ENTRY_BYTES = 16


def rev_fault(content: bytes, index: PackIndex, object_format: ObjectFormat) -> str:
    """What is wrong with a .rev file that git accepts; empty when nothing, or when it refuses."""
    oid_bytes = object_format.size_bytes
    count = len(index.entries)
    if len(content) != _REV_HEADER_BYTES + 4 * count + 2 * oid_bytes:
        return ""
    header = struct.unpack_from(">4sII", content, 0)
    if header != (b"RIDX", 1, 1 if object_format is SHA1 else 2):
        return ""
    order = sorted(range(count), key=lambda number: index.entries[number].offset)
    if list(struct.unpack_from(f">{count}I", content, _REV_HEADER_BYTES)) != order:
        return "has objects in another order than its pack"
    if content[-2 * oid_bytes : -oid_bytes] != index.pack_checksum:
        return "is for another pack"
    if object_format.digest(content[:-oid_bytes]) != content[-oid_bytes:]:
        return "has a bad checksum"
    return ""


def bitmap_fault(
    content: bytes, checksum: bytes, object_count: int, object_format: ObjectFormat
) -> str:
    """What is wrong with a .bitmap that git accepts; empty when nothing, or when it refuses.

    :param checksum: of the pack, or of the multi-pack-index, that it belongs to.
    """
    oid_bytes = object_format.size_bytes
    if len(content) < _BITMAP_HEADER_BYTES + 2 * oid_bytes or content[:4] != b"BITM":
        return ""
    version, options, entries = struct.unpack_from(">HHI", content, 4)
    if version != 1:
        return ""
    if not options & _FULL_DAG:
        return "does not say that it is closed under reachability: git aborts of that"
    try:
        _skip_bitmaps(content, options, entries, object_count, oid_bytes)
    except FormatError:
        return ""
    if content[_BITMAP_HEADER_BYTES : _BITMAP_HEADER_BYTES + oid_bytes] != checksum:
        return "is for other packs"
    if object_format.digest(content[:-oid_bytes]) != content[-oid_bytes:]:
        return "has a bad checksum"
    return ""


def _skip_bitmaps(
    content: bytes, options: int, entries: int, object_count: int, oid_bytes: int
) -> None:
    """Go over the bitmaps as git does when it opens the file. Raises FormatError where it fails."""
    end = len(content) - oid_bytes
    if options & _HASH_CACHE:
        end -= 4 * object_count
    if options & _LOOKUP_TABLE:
        end -= _LOOKUP_ENTRY_BYTES * entries
    position = _BITMAP_HEADER_BYTES + oid_bytes
    for _ in range(_TYPE_BITMAPS):
        position = skip_ewah(content, position, end)
    if options & _LOOKUP_TABLE:
        return
    for _ in range(entries):
        if position + 6 > end:
            raise FormatError("ends within its bitmaps")
        if struct.unpack_from(">I", content, position)[0] >= object_count:
            raise FormatError("has a bitmap for an object that is not there")
        position = skip_ewah(content, position + 6, end)

"""Directory entries of f2fs, in blocks of their own and inside inodes.

Format: include/linux/f2fs_fs.h, struct f2fs_dentry_block: a bitmap of used slots, the entries (11
bytes each: hash, inode, length of the name, file type), and the names, eight bytes a slot. A name
that is longer takes several slots.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from crashsim.explain.blocks import unpack

_SLOT_BYTES = 8
_ENTRY_BYTES = 11
_NAME_BYTES_MAX = 255
_FILE_TYPE_MAX = 7
_INLINE_START = 364


@dataclass(frozen=True, slots=True)
class DentryArea:
    """Where a table of directory entries is in a block: offsets in bytes, and how many."""

    bitmap: int
    entries: int
    names: int
    count: int


BLOCK = DentryArea(0, 30, 2384, 214)
# 3488 bytes: 923 addresses less one reserved and fifty for inline attributes; 182 entries.
INLINE = DentryArea(_INLINE_START, _INLINE_START + 30, _INLINE_START + 2032, 182)


def inodes_named(data: bytes, name: bytes, area: DentryArea) -> Iterator[int]:
    """The inodes of the valid entries called `name` in an area of directory entries."""
    at = data.find(name, area.names)
    while 0 <= at < area.names + area.count * _SLOT_BYTES:
        slot, odd = divmod(at - area.names, _SLOT_BYTES)
        entry = unpack("<IIHB", data, area.entries + slot * _ENTRY_BYTES)
        used = data[area.bitmap + slot // 8] >> slot % 8 & 1
        if not odd and used and entry is not None and entry[2] == len(name) and entry[1]:
            yield entry[1]
        at = data.find(name, at + 1)


def names(data: bytes) -> list[bytes] | None:
    """The names in a directory block; None if it is not one: an entry of it would be unsound."""
    found: list[bytes] = []
    slot = 0
    while slot < BLOCK.count:
        if not _used(data, slot):
            slot += 1
            continue
        entry = unpack("<IIHB", data, BLOCK.entries + slot * _ENTRY_BYTES)
        if entry is None or not entry[1] or entry[3] > _FILE_TYPE_MAX:
            return None
        length = entry[2]
        slots = range(slot, slot + -(-length // _SLOT_BYTES))
        name = data[BLOCK.names + slot * _SLOT_BYTES :][:length]
        if not 0 < length <= _NAME_BYTES_MAX or b"/" in name or b"\0" in name:
            return None
        if slots.stop > BLOCK.count or not all(_used(data, each) for each in slots):
            return None
        found.append(name)
        slot = slots.stop
    return found or None


def _used(data: bytes, slot: int) -> bool:
    place = BLOCK.bitmap + slot // 8
    return place < len(data) and bool(data[place] >> slot % 8 & 1)

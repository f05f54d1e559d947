"""ext4: what a written block is.

Formats: the kernel's filesystems/ext4 documentation ("Super Block", "Block Group Descriptors",
"Inode Table"). ext4 is little-endian.
"""

from bisect import bisect_right
from dataclasses import dataclass

from crashsim.explain.blocks import (
    Block,
    NoLayout,
    Owner,
    ReadBytes,
    Role,
    merged,
    pieces,
    shown,
    unpack,
)
from crashsim.explain.ext4_files import (
    directory_entries,
    inode_size,
    is_extent_node,
    read_extents,
)
from crashsim.explain.jbd2 import Journal

_MAGIC = 0xEF53
_INCOMPAT_META_BG = 0x10
_INCOMPAT_64BIT = 0x80
_ORPHAN_MAGIC = 0x0B10CA04  # ext4_orphan_block_tail, at the end of a block of the orphan file
_GROUPS_MAX = 1 << 16
_JOURNAL_BLOCKS_MAX = 1 << 20
_JOURNAL_DEPTH_MAX = 1
"""One level of extent blocks holds what any mkfs makes of a journal."""
_I_BLOCK = slice(0x28, 0x28 + 60)
"""An inode's i_block: the root of its extent tree."""


@dataclass(frozen=True, slots=True)
class _Geometry:
    block_bytes: int
    blocks: int
    blocks_per_group: int
    inodes_per_group: int
    inode_bytes: int
    first_data_block: int
    descriptor_bytes: int
    meta_bg: bool

    @property
    def groups(self) -> int:
        return -(-(self.blocks - self.first_data_block) // self.blocks_per_group)


def _geometry(superblock: bytes) -> _Geometry:
    magic = unpack("<H", superblock, 0x38)
    if magic is None or magic[0] != _MAGIC:
        raise NoLayout("the disk holds no ext4 superblock (its magic number is missing)")
    (blocks_low,) = unpack("<I", superblock, 0x4) or (0,)
    (blocks_high,) = unpack("<I", superblock, 0x150) or (0,)
    first_data_block, log_block = unpack("<II", superblock, 0x14) or (0, 0)
    blocks_per_group, _, inodes_per_group = unpack("<III", superblock, 0x20) or (0, 0, 0)
    (inode_bytes,) = unpack("<H", superblock, 0x58) or (0,)
    (incompat,) = unpack("<I", superblock, 0x60) or (0,)
    (descriptor_bytes,) = unpack("<H", superblock, 0xFE) or (0,)
    wide = bool(incompat & _INCOMPAT_64BIT)
    if log_block > 6:
        raise NoLayout(f"ext4's superblock claims blocks of 2**{10 + log_block} bytes")
    geometry = _Geometry(
        block_bytes=1024 << log_block,
        blocks=blocks_low | (blocks_high << 32 if wide else 0),
        blocks_per_group=blocks_per_group,
        inodes_per_group=inodes_per_group,
        inode_bytes=inode_bytes,
        first_data_block=first_data_block,
        descriptor_bytes=descriptor_bytes if wide else 32,
        meta_bg=bool(incompat & _INCOMPAT_META_BG),
    )
    if (
        not 1 <= geometry.blocks_per_group <= 8 * geometry.block_bytes
        or not 1 <= geometry.inodes_per_group <= 8 * geometry.block_bytes
        or geometry.inode_bytes not in (128, 256, 512, 1024, 2048, 4096)
        or geometry.descriptor_bytes not in (32, 64)
        or geometry.first_data_block > 1
        or not 1 <= geometry.groups <= _GROUPS_MAX
    ):
        raise NoLayout("ext4's superblock holds a geometry that no ext4 has")
    return geometry


class Ext4Layout:
    """Names ext4's blocks (see `blocks.Layout`).

    Raises NoLayout where `read` shows no ext4, or one with an impossible geometry.
    """

    fstype = "ext4"
    transaction_word = "journal commit"

    def __init__(self, read: ReadBytes) -> None:
        """Read the geometry."""
        superblock = read(1024, 1024)
        self.geometry = _geometry(superblock)
        self._bitmaps: dict[int, str] = {}
        self._tables: list[tuple[int, int]] = []
        self._read_descriptors(read)
        self._journal = self._read_journal(superblock, read)

    def _read_descriptors(self, read: ReadBytes) -> None:
        """Learn where bitmaps and inode tables are. With meta_bg only the first group block is
        read: the rest then goes by content alone."""
        geometry = self.geometry
        start = (geometry.first_data_block + 1) * geometry.block_bytes
        groups = geometry.groups
        if geometry.meta_bg:
            groups = min(groups, geometry.block_bytes // geometry.descriptor_bytes)
        self.descriptor_blocks = range(
            geometry.first_data_block + 1,
            geometry.first_data_block
            + 1
            + -(-groups * geometry.descriptor_bytes // geometry.block_bytes),
        )
        table = read(start, groups * geometry.descriptor_bytes)
        for group in range(groups):
            low = unpack("<III", table, group * geometry.descriptor_bytes)
            high: tuple[int, ...] | None = (0, 0, 0)
            if geometry.descriptor_bytes == 64:
                high = unpack("<III", table, group * geometry.descriptor_bytes + 0x20)
            if low is None or high is None:
                raise NoLayout("ext4's group descriptors end before their last group")
            block_map, inode_map, inode_table = (
                a | b << 32 for a, b in zip(low, high, strict=True)
            )
            self._bitmaps[block_map] = f"block bitmap of group {group}"
            self._bitmaps[inode_map] = f"inode bitmap of group {group}"
            self._tables.append((inode_table, group))
        self._tables.sort()

    def _read_journal(self, superblock: bytes, read: ReadBytes) -> Journal:
        """Find the journal by the copy of its inode's extents that the superblock keeps."""
        size = self.geometry.block_bytes
        (journal_inode,) = unpack("<I", superblock, 0xE0) or (0,)
        blocks: list[int] = []
        root = superblock[0x10C : 0x10C + 60] if journal_inode else b""  # 0: made without one
        for logical, physical, length in read_extents(root, size, read, _JOURNAL_DEPTH_MAX):
            if logical != len(blocks) or logical + length > _JOURNAL_BLOCKS_MAX:
                break  # a journal has no holes
            blocks.extend(range(physical, physical + length))
        journal = Journal(blocks)
        if blocks:
            journal.learn(read(blocks[0] * size, 1024))
        return journal

    def blocks(self, offset_bytes: int, data: bytes) -> list[Block]:
        """Name a write (see `blocks.Layout.blocks`)."""
        size = self.geometry.block_bytes
        if offset_bytes % size:
            what = "superblock" if offset_bytes == 1024 else "part of a block"
            role = Role.METADATA if offset_bytes == 1024 else Role.UNKNOWN
            return [Block(0, len(data), role, what)]
        return merged(
            [
                self._block(offset_bytes // size + start // size, start, piece)
                for start, piece in pieces(data, size)
            ]
        )

    def entries(self, data: bytes, name: bytes) -> frozenset[int]:
        """The inodes that entries called `name` point to (see `blocks.Layout.entries`)."""
        if name not in data:
            return frozenset()
        return frozenset(inode for inode, found in directory_entries(data) or () if found == name)

    def owners(self, home_bytes: int, data: bytes, place_bytes: int) -> frozenset[Owner]:
        """The inodes with an extent at a place (see `blocks.Layout.owners`).

        Only extents in the inode itself count: files of up to four pieces.
        """
        size = self.geometry.block_bytes
        first = self._first_inode(home_bytes // size)
        if first is None:
            return frozenset()
        return frozenset(
            Owner(first + start // self.geometry.inode_bytes, inode_size(inode))
            for start, inode in pieces(data, self.geometry.inode_bytes)
            for _, physical, length in read_extents(inode[_I_BLOCK], size)
            if physical <= place_bytes // size < physical + length
        )

    def inline_owners(self, data: bytes, content: bytes) -> frozenset[int]:
        """None: ext4's `inline_data` is off by default, and not looked for."""
        return frozenset()

    def _block(self, number: int, start: int, data: bytes) -> Block:
        length = len(data)
        if number in self._journal:
            return self._journal_block(number, start, data)
        what = self.area(number)
        if what:
            return Block(start, length, Role.METADATA, what)
        what = _by_content(data)
        if what:
            return Block(start, length, Role.METADATA, what)
        return Block(start, length, Role.UNKNOWN, "file data or metadata")

    def area(self, number: int) -> str:
        """What block `number` of the disk is for, as far as its place tells; else empty."""
        geometry = self.geometry
        if number * geometry.block_bytes <= 1024 < (number + 1) * geometry.block_bytes:
            return "superblock"
        if number in self.descriptor_blocks:
            return "group descriptors"
        if number in self._bitmaps:
            return self._bitmaps[number]
        first = self._first_inode(number)
        if first is None:
            return ""
        last = first + geometry.block_bytes // geometry.inode_bytes - 1
        return f"inode table (inodes {first} to {last})"

    def _first_inode(self, number: int) -> int | None:
        """The first inode in block `number` of the disk; None where it is in no inode table."""
        geometry = self.geometry
        index = bisect_right(self._tables, (number, _GROUPS_MAX)) - 1
        if index < 0:
            return None
        table, group = self._tables[index]
        per_block = geometry.block_bytes // geometry.inode_bytes
        if number - table >= -(-geometry.inodes_per_group // per_block):
            return None
        return int(group * geometry.inodes_per_group + (number - table) * per_block + 1)

    def _journal_block(self, number: int, start: int, data: bytes) -> Block:
        copy = self._journal.announced(number)
        if copy is None:
            return self._journal.name(number, start, data)
        transaction, home = copy
        name = self.area(home) or _by_content(data) or f"block {home}"
        return Block(
            start,
            len(data),
            Role.JOURNAL,
            f"journaled copy of {name}",
            str(transaction),
            home * self.geometry.block_bytes,
        )


def _by_content(block: bytes) -> str:
    if is_extent_node(block):
        return "extent tree block"
    if unpack("<I", block, len(block) - 8) == (_ORPHAN_MAGIC,):
        return "orphan file block"
    entries = directory_entries(block)
    if entries is None:
        return ""
    names = [name for _, name in entries if name not in (b".", b"..")]
    return f"directory block ({shown(names) or 'empty'})"

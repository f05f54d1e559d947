"""f2fs: what a written block is.

Format: the kernel's filesystems/f2fs documentation ("On-disk Layout", "Index Structure") and its
public header include/linux/f2fs_fs.h. Everything on disk is little-endian; a block is 4 KiB.
"""

from dataclasses import dataclass

from crashsim.explain import f2fs_dentries
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

_MAGIC = 0xF2F52010
_BLOCK = 4096
_FOOTER = 4072
_COLD, _FSYNC, _DENTRY = 1, 2, 4
_NAME_BYTES_MAX = 255
_ADDRESSES, _ADDRESSES_END = 360, 360 + 4 * 923
"""An inode's i_addr. With inline data or dentries the first is reserved, then they follow."""
_INLINE_START = _ADDRESSES + 4
_INLINE_DATA, _INLINE_DENTRY = 0x02, 0x04


@dataclass(frozen=True, slots=True)
class _Geometry:
    segment_blocks: int
    blocks: int
    checkpoint: int
    sit: int
    nat: int
    ssa: int
    main: int
    nodes_max: int


def _geometry(superblock: bytes) -> _Geometry:
    magic = unpack("<I", superblock)
    if magic is None or magic[0] != _MAGIC:
        raise NoLayout("the disk holds no f2fs superblock (its magic number is missing)")
    log_block, log_segment = unpack("<II", superblock, 16) or (0, 0)
    (blocks,) = unpack("<Q", superblock, 36) or (0,)
    (nat_segments,) = unpack("<I", superblock, 60) or (0,)
    checkpoint, sit, nat, ssa, main = unpack("<IIIII", superblock, 76) or (0,) * 5
    segment_blocks = 1 << min(log_segment, 31)
    geometry = _Geometry(
        segment_blocks,
        blocks,
        checkpoint,
        sit,
        nat,
        ssa,
        main,
        # Half of the area is the shadow copy; 455 NAT entries in a block.
        nat_segments // 2 * segment_blocks * 455,
    )
    ordered = 0 < checkpoint < sit < nat < ssa < main < blocks
    if log_block != 12 or log_segment != 9 or not ordered or not geometry.nodes_max:
        raise NoLayout("f2fs's superblock holds a geometry that this version does not know")
    return geometry


class F2fsLayout:
    """Names f2fs's blocks (see `blocks.Layout`). Raises NoLayout where `read` shows no f2fs.

    A transaction is a checkpoint version. A checkpoint pack begins and ends with the same block;
    the one that ends it is what makes it count.
    """

    fstype = "f2fs"
    transaction_word = "checkpoint"

    def __init__(self, read: ReadBytes) -> None:
        """Read the geometry."""
        self.geometry = _geometry(read(1024, 1024))
        segment = self.geometry.segment_blocks * _BLOCK
        start = self.geometry.checkpoint * _BLOCK
        versions = [unpack("<Q", read(start + pack * segment, 8)) or (0,) for pack in (0, 1)]
        self._version = max(version for (version,) in versions)
        self._open_packs: set[tuple[int, int]] = set()

    def blocks(self, offset_bytes: int, data: bytes) -> list[Block]:
        """Name a write (see `blocks.Layout.blocks`)."""
        if offset_bytes % _BLOCK:
            return [Block(0, len(data), Role.UNKNOWN, "part of a block")]
        first = offset_bytes // _BLOCK
        return merged(
            [
                self._block(first + start // _BLOCK, start, piece)
                for start, piece in pieces(data, _BLOCK)
            ]
        )

    def entries(self, data: bytes, name: bytes) -> frozenset[int]:
        """The inodes that entries called `name` point to (see `blocks.Layout.entries`).

        In dentry blocks, in directories inside their inode, and by the fsync mark with dentry of a
        file's own inode, from which recovery makes the entry.
        """
        if name not in data:
            return frozenset()
        found = set(f2fs_dentries.inodes_named(data, name, f2fs_dentries.BLOCK))
        (inline,) = unpack("<B", data, 3) or (0,)
        node, inode, flags, _, _ = unpack("<IIIQI", data, _FOOTER) or (0,) * 5
        if node and node == inode:
            if inline & _INLINE_DENTRY:
                found.update(f2fs_dentries.inodes_named(data, name, f2fs_dentries.INLINE))
            if flags & _FSYNC and flags & _DENTRY and _inode_name(data) == name:
                found.add(inode)
        return frozenset(found)

    def owners(self, home_bytes: int, data: bytes, place_bytes: int) -> frozenset[Owner]:
        """The inode whose node block has the address of a place (see `blocks.Layout.owners`)."""
        node, inode, _, _, _ = unpack("<IIIQI", data, _FOOTER) or (0,) * 5
        if not node or place_bytes // _BLOCK > 0xFFFFFFFF:
            return frozenset()
        start, end = (_ADDRESSES, _ADDRESSES_END) if node == inode else (0, _FOOTER)
        address = (place_bytes // _BLOCK).to_bytes(4, "little")
        at = data.find(address, start, end)
        while at >= 0 and (at - start) % 4:
            at = data.find(address, at + 1, end)
        if at < 0:
            return frozenset()
        size = unpack("<Q", data, 16) if node == inode else None
        return frozenset((Owner(inode, size[0] if size is not None else None),))

    def inline_owners(self, data: bytes, content: bytes) -> frozenset[int]:
        """The inode that holds `content` itself (see `blocks.Layout.inline_owners`)."""
        node, inode, _, _, _ = unpack("<IIIQI", data, _FOOTER) or (0,) * 5
        (inline,) = unpack("<B", data, 3) or (0,)
        (size,) = unpack("<Q", data, 16) or (0,)
        if node != inode or not inline & _INLINE_DATA or size != len(content):
            return frozenset()
        same = data[_INLINE_START : _INLINE_START + size] == content
        return frozenset((inode,)) if same else frozenset()

    def _block(self, number: int, start: int, data: bytes) -> Block:
        geometry = self.geometry
        if number >= geometry.main:
            return self._main_block(start, data)
        if geometry.checkpoint <= number < geometry.sit:
            return self._checkpoint_block(number, start, data)
        if number < geometry.checkpoint:
            what = "superblock"
        elif number < geometry.nat:
            what = "segment information (SIT)"
        elif number < geometry.ssa:
            what = "node address table (NAT)"
        else:
            what = "segment summaries (SSA)"
        return Block(start, len(data), Role.METADATA, what)

    def _checkpoint_block(self, number: int, start: int, data: bytes) -> Block:
        """A pack has the checkpoint block first and last, and summaries in between."""
        into = number - self.geometry.checkpoint
        pack, place = divmod(into, self.geometry.segment_blocks)
        (version,) = unpack("<Q", data) or (0,)
        (blocks_in_pack,) = unpack("<I", data, 136) or (0,)
        known = self._version <= version <= self._version + 2
        if place == 0 and known:
            self._version = version
            self._open_packs = {(pack, blocks_in_pack - 1)}
            what = f"first block of checkpoint {version} (pack {pack})"
            return Block(start, len(data), Role.JOURNAL, what, str(version))
        if (pack, place) in self._open_packs and version == self._version:
            what = f"last block of checkpoint {version} (pack {pack})"
            return Block(start, len(data), Role.COMMIT, what, str(version))
        return Block(start, len(data), Role.METADATA, f"checkpoint pack {pack}: summaries")

    def _main_block(self, start: int, data: bytes) -> Block:
        """Node blocks are told from data by their footer (struct node_footer)."""
        footer = unpack("<IIIQI", data, _FOOTER)
        if footer is None:
            return Block(start, len(data), Role.UNKNOWN, "file data or metadata")
        node, inode, flags, version, next_block = footer
        geometry = self.geometry
        # The upper half of the version may hold a checksum (CP_CRC_RECOVERY_FLAG).
        version &= 0xFFFFFFFF
        if not (
            0 < node < geometry.nodes_max
            and 0 < inode < geometry.nodes_max
            and 0 < version <= self._version + 1
            and (next_block == 0 or geometry.main <= next_block < geometry.blocks)
        ):
            return Block(start, len(data), *_content(data))
        what = f"node {node} of inode {inode}"
        if node == inode:
            what = f"inode {inode}{_named(data)}"
        if flags & _FSYNC:
            what += ", with the fsync mark" + (" and its directory entry" * bool(flags & _DENTRY))
            return Block(start, len(data), Role.FSYNC, what, str(version + 1))
        return Block(start, len(data), Role.METADATA, what, str(version + 1))


def _content(data: bytes) -> tuple[Role, str]:
    """What a block without a node's footer is."""
    names = f2fs_dentries.names(data)
    if names is None:
        return Role.UNKNOWN, "file data or metadata"
    return Role.METADATA, f"directory block ({shown(names) or 'empty'})"


def _inode_name(inode: bytes) -> bytes:
    """The name that an inode block keeps of its file (i_namelen, i_name); empty if unsound."""
    (length,) = unpack("<I", inode, 88) or (0,)
    return inode[92 : 92 + length] if length <= _NAME_BYTES_MAX else b""


def _named(inode: bytes) -> str:
    name = _inode_name(inode).decode("utf-8", "backslashreplace")
    return f" ({repr(name)[1:-1]})" if name else ""

"""btrfs: what a written block is.

Format: the btrfs documentation, "On-disk Format" (Superblock, Tree nodes: struct btrfs_header).
Everything on disk is little-endian. Tree blocks say themselves what they are, so the mapping from
logical to physical addresses is not needed.
"""

from crashsim.explain import btrfs_items
from crashsim.explain.blocks import Block, NoLayout, Owner, ReadBytes, Role, merged, unpack

_SUPERBLOCK_OFFSETS = (65_536, 67_108_864, 274_877_906_944)
_SUPERBLOCK_BYTES = 4096
_MAGIC = b"_BHRfS_M"
_FSID = slice(32, 48)
_TREE_LOG, _FIRST_SUBVOLUME = 2**64 - 6, 256
_LEVEL_MAX = 7
_TREES = {
    1: "root tree",
    2: "extent tree",
    3: "chunk tree",
    4: "device tree",
    5: "filesystem tree",
    6: "root directory tree",
    7: "checksum tree",
    8: "quota tree",
    9: "UUID tree",
    10: "free space tree",
    11: "block group tree",
    12: "raid stripe tree",
    _TREE_LOG: "log tree",
    2**64 - 7: "log fixup tree",
    2**64 - 8: "relocation tree",
    2**64 - 9: "data relocation tree",
}


class BtrfsLayout:
    """Names btrfs's blocks (see `blocks.Layout`). Raises NoLayout where `read` shows no btrfs.

    A transaction is a generation (`8`); what one fsync commits by the log tree is `log of 8`: the
    superblock then still has generation 7, and points to the log tree.
    """

    fstype = "btrfs"
    transaction_word = "superblock"

    def __init__(self, read: ReadBytes) -> None:
        """Read the geometry."""
        superblock = read(_SUPERBLOCK_OFFSETS[0], _SUPERBLOCK_BYTES)
        if superblock[0x40:0x48] != _MAGIC:
            raise NoLayout("the disk holds no btrfs superblock (its magic number is missing)")
        (self.node_bytes,) = unpack("<I", superblock, 0x94) or (0,)
        if self.node_bytes not in (4096, 8192, 16384, 32768, 65536):
            raise NoLayout(f"btrfs's superblock claims tree blocks of {self.node_bytes} bytes")
        # Tree blocks carry the metadata UUID where it was ever changed (its incompat bit 10).
        (incompat,) = unpack("<Q", superblock, 0xBC) or (0,)
        self._fsid = superblock[0x23B:0x24B] if incompat & 1 << 10 else superblock[_FSID]

        self._chunks = btrfs_items.Chunks(superblock, self.node_bytes, read)

    def blocks(self, offset_bytes: int, data: bytes) -> list[Block]:
        """Name a write (see `blocks.Layout.blocks`)."""
        if offset_bytes in _SUPERBLOCK_OFFSETS and data[0x40:0x48] == _MAGIC:
            return [self._superblock(offset_bytes, data)]
        found: list[Block] = []
        at = 0
        while at < len(data):
            block = self._tree_block(at, data[at : at + self.node_bytes])
            found.append(block)
            at += block.length_bytes
        return merged(found)

    def entries(self, data: bytes, name: bytes) -> frozenset[int]:
        """The inodes that entries called `name` point to (see `blocks.Layout.entries`)."""
        if name not in data:
            return frozenset()
        entries = btrfs_items.directory_entries(data)
        return frozenset(inode for inode, found in entries if found == name)

    def owners(self, home_bytes: int, data: bytes, place_bytes: int) -> frozenset[Owner]:
        """The inodes with an extent at a place (see `blocks.Layout.owners`).

        Chunks allocated after the exploration's start are not known.
        """
        logical = self._chunks.logical(place_bytes)
        if logical is None:
            return frozenset()
        return frozenset(
            Owner(inode, btrfs_items.inode_size(data, inode))
            for inode, start, length in btrfs_items.file_extents(data)
            if start <= logical < start + length
        )

    def inline_owners(self, data: bytes, content: bytes) -> frozenset[int]:
        """The inodes with `content` in a leaf (see `blocks.Layout.inline_owners`)."""
        if content not in data:
            return frozenset()
        files = btrfs_items.inline_files(data)
        return frozenset(inode for inode, found in files if found == content)

    @staticmethod
    def _superblock(offset_bytes: int, data: bytes) -> Block:
        generation, _, _, log_root = unpack("<QQQQ", data, 0x48) or (0, 0, 0, 0)
        mirror = _SUPERBLOCK_OFFSETS.index(offset_bytes)
        # Recovery reads the first one only; the mirrors are for repair by hand.
        role = Role.METADATA if mirror else Role.COMMIT
        copy = f", copy {mirror}" if mirror else ""
        if log_root:
            transaction = f"log of {generation + 1}"
            what = f"superblock of generation {generation} with a log tree{copy}"
        else:
            transaction = str(generation)
            what = f"superblock of generation {generation}{copy}"
        return Block(0, len(data), role, what, transaction)

    def _tree_block(self, start: int, data: bytes) -> Block:
        if len(data) < btrfs_items.HEADER_BYTES or data[_FSID] != self._fsid:
            length = min(4096, len(data))
            return Block(start, length, Role.UNKNOWN, "file data or metadata")
        generation, owner, items, level = unpack("<QQIB", data, 80) or (0, 0, 0, 0)
        if level > _LEVEL_MAX or items > self.node_bytes // 25:
            length = min(4096, len(data))
            return Block(start, length, Role.UNKNOWN, "file data or metadata")
        if owner in _TREES:
            tree = _TREES[owner]
        elif _FIRST_SUBVOLUME <= owner < 2**63:
            tree = f"tree of subvolume {owner}"
        else:
            tree = f"tree {owner}"
        kind = f"node of level {level}" if level else "leaf"
        log = "log of " if owner == _TREE_LOG else ""
        return Block(
            start,
            len(data),
            Role.METADATA,
            f"{tree} {kind}, generation {generation}",
            f"{log}{generation}",
        )

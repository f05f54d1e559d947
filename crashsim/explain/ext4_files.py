"""What ext4's inodes and directory blocks say: extents and names.

Formats: the kernel's filesystems/ext4 documentation, "The Contents of inode.i_block" (extent tree)
and "Linear (Classic) Directories".
"""

from crashsim.explain.blocks import ReadBytes, unpack

_EXTENT_MAGIC = 0xF30A
_INITIALISED_MAX = 32768
_DEPTH_MAX = 5
_CHECKSUM_TYPE = 0xDE
_FILE_TYPE_MAX = 7


def inode_size(inode: bytes) -> int | None:
    """The size of an inode's file, in bytes (i_size_lo, i_size_high)."""
    low, high = unpack("<I", inode, 0x4), unpack("<I", inode, 0x6C)
    return None if low is None or high is None else high[0] << 32 | low[0]


def is_extent_node(block: bytes) -> bool:
    """Whether a block is a node of an extent tree."""
    return block[:2] == _EXTENT_MAGIC.to_bytes(2, "little") and len(block) >= 12


def read_extents(
    node: bytes, block_bytes: int, read: ReadBytes | None = None, depth_max: int = _DEPTH_MAX
) -> list[tuple[int, int, int]]:
    """(first block of the file, first block of the disk, count) of the extents below a tree node.

    :param node: the bytes of the node, in an inode or a block.
    :param read: how to read further nodes; without it only extents in this node are found.
    """
    header = unpack("<HHHH", node)
    if header is None or header[0] != _EXTENT_MAGIC or header[3] > depth_max:
        return []
    found: list[tuple[int, int, int]] = []
    for at in range(12, min(12 + 12 * header[1], len(node) - 11), 12):
        if header[3] == 0:
            logical, length, high, low = unpack("<IHHI", node, at) or (0, 0, 0, 0)
            # More than 32768 stands for an extent that is allocated and not initialised.
            length = length - _INITIALISED_MAX if length > _INITIALISED_MAX else length
            found.append((logical, high << 32 | low, length))
        elif read is not None:
            _, low, high = unpack("<IIH", node, at) or (0, 0, 0)
            child = read((high << 32 | low) * block_bytes, block_bytes)
            found.extend(read_extents(child, block_bytes, read, header[3] - 1))
    return found


def directory_entries(block: bytes) -> list[tuple[int, bytes]] | None:
    """(inode number, name) of the entries of an ext4 directory block; None if it is not one.

    A block counts as one when its entries' lengths lead exactly to its end.
    """
    found: list[tuple[int, bytes]] = []
    at = 0
    while at < len(block):
        entry = unpack("<IHBB", block, at)
        if entry is None:
            return None
        inode, record, name_length, file_type = entry
        checksum = inode == 0 and name_length == 0 and file_type == _CHECKSUM_TYPE
        if record < 8 or record % 4 or name_length > record - 8:
            return None
        if file_type > _FILE_TYPE_MAX and not checksum:
            return None
        name = block[at + 8 : at + 8 + name_length]
        if inode:
            if not name or b"/" in name or b"\0" in name:
                return None
            found.append((inode, name))
        at += record
    return found if block and at == len(block) else None

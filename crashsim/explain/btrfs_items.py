"""What btrfs's tree blocks say: items of a leaf, names, extents, and where a logical address is.

Format: the btrfs documentation, "On-disk Format" (struct btrfs_item, btrfs_dir_item,
btrfs_file_extent_item, btrfs_chunk). Everything on disk is little-endian.
"""

from collections.abc import Callable, Iterator

from crashsim.explain.blocks import unpack

HEADER_BYTES = 101
_INODE_ITEM, _DIR_ITEM, _DIR_INDEX, _EXTENT_DATA, _CHUNK = 1, 84, 96, 108, 228
_INLINE, _REGULAR = 0, 1
_CHUNK_BYTES, _STRIPE_BYTES, _KEY_BYTES = 48, 32, 17
_LEVEL_MAX = 7
_CHUNKS_MAX = 1 << 12
_NODES_MAX = 1 << 10
"""Bounds for what an untrusted chunk tree may make us read."""


def leaf_items(leaf: bytes) -> Iterator[tuple[int, int, int, bytes]]:
    """(object, type, offset, content) of a leaf's items, as far as they are sound."""
    count, level = unpack("<IB", leaf, 96) or (0, 1)
    if level:
        return
    for index in range(min(count, len(leaf) // 25)):
        item = unpack("<QBQII", leaf, HEADER_BYTES + 25 * index)
        if item is None:
            return
        object_id, kind, offset, start, size = item
        if HEADER_BYTES + start + size > len(leaf):
            return
        yield object_id, kind, offset, leaf[HEADER_BYTES + start : HEADER_BYTES + start + size]


def directory_entries(leaf: bytes) -> Iterator[tuple[int, bytes]]:
    """(inode, name) of the directory entries of a leaf."""
    for _, kind, _, content in leaf_items(leaf):
        at = 0
        while kind in (_DIR_ITEM, _DIR_INDEX) and at < len(content):
            entry = unpack("<QBQQHHB", content, at)
            if entry is None:
                break
            inode, _, _, _, data_length, name_length, _ = entry
            yield inode, content[at + 30 : at + 30 + name_length]
            at += 30 + name_length + data_length


def file_extents(leaf: bytes) -> Iterator[tuple[int, int, int]]:
    """(inode, logical address, length) in bytes of the regular extents of a leaf."""
    for inode, kind, _, content in leaf_items(leaf):
        extent = unpack("<B", content, 20)
        place = unpack("<QQ", content, 21)
        if kind == _EXTENT_DATA and extent == (_REGULAR,) and place is not None and place[0]:
            yield inode, place[0], place[1]


def inode_size(leaf: bytes, inode: int) -> int | None:
    """The size of an inode's file, where the leaf has the inode itself (btrfs_inode_item)."""
    for object_id, kind, _, content in leaf_items(leaf):
        if object_id == inode and kind == _INODE_ITEM and len(content) >= 24:
            (size,) = unpack("<Q", content, 16) or (0,)
            return int(size)
    return None


def inline_files(leaf: bytes) -> Iterator[tuple[int, bytes]]:
    """(inode, content) of the uncompressed files that a leaf holds itself."""
    for inode, kind, offset, content in leaf_items(leaf):
        extent = unpack("<BBHB", content, 16)
        if kind == _EXTENT_DATA and offset == 0 and extent == (0, 0, 0, _INLINE):
            yield inode, content[21:]


class Chunks:
    """Where logical addresses are on the one device of a filesystem."""

    def __init__(
        self, superblock: bytes, node_bytes: int, read: Callable[[int, int], bytes]
    ) -> None:
        """Read the chunk tree, by the system chunks that the superblock lists."""
        self._map: list[tuple[int, int, tuple[int, ...]]] = []
        self._nodes_left = _NODES_MAX
        (root,) = unpack("<Q", superblock, 0x58) or (0,)
        (size,) = unpack("<I", superblock, 0xA0) or (0,)
        self._read_system_chunks(superblock[0x32B : 0x32B + min(size, 2048)])
        self._read_tree(root, node_bytes, read, _LEVEL_MAX)

    def logical(self, place_bytes: int) -> int | None:
        """The logical address of a place of the disk; None where no known chunk is."""
        for logical, length, places in self._map:
            for place in places:
                if place <= place_bytes < place + length:
                    return logical + place_bytes - place
        return None

    def _read_system_chunks(self, array: bytes) -> None:
        at = 0
        while at + _KEY_BYTES < len(array):
            key = unpack("<QBQ", array, at)
            stripes = unpack("<H", array, at + _KEY_BYTES + 44)
            if key is None or stripes is None:
                return
            end = at + _KEY_BYTES + _CHUNK_BYTES + _STRIPE_BYTES * stripes[0]
            self._add(key[2], array[at + _KEY_BYTES : end])
            at = end

    def _read_tree(
        self, logical: int, node_bytes: int, read: Callable[[int, int], bytes], level_max: int
    ) -> None:
        place = self._place(logical)
        self._nodes_left -= 1
        if place is None or level_max < 0 or self._nodes_left < 0:
            return
        node = read(place, node_bytes)
        count, level = unpack("<IB", node, 96) or (0, 0)
        if level == 0:
            for _, kind, offset, content in leaf_items(node):
                if kind == _CHUNK:
                    self._add(offset, content)
        else:
            for index in range(min(count, len(node) // 33)):
                (child,) = unpack("<Q", node, HEADER_BYTES + 33 * index + _KEY_BYTES) or (0,)
                self._read_tree(child, node_bytes, read, min(level, level_max) - 1)

    def _add(self, logical: int, chunk: bytes) -> None:
        fields = unpack("<Q", chunk)
        stripes = unpack("<H", chunk, 44)
        if fields is None or stripes is None or len(self._map) >= _CHUNKS_MAX:
            return
        places = [
            unpack("<Q", chunk, _CHUNK_BYTES + _STRIPE_BYTES * i + 8) for i in range(stripes[0])
        ]
        entry = (logical, fields[0], tuple(place[0] for place in places if place is not None))
        if entry not in self._map:
            self._map.append(entry)

    def _place(self, logical: int) -> int | None:
        for start, length, places in self._map:
            if start <= logical < start + length and places:
                return places[0] + logical - start
        return None

"""The journal of ext4 (jbd2): what a block of it is, and which block a copy belongs to.

Format: the kernel's filesystems/ext4 documentation, "Journal (jbd2)". Everything is big-endian.
"""

from dataclasses import dataclass, field

from crashsim.explain.blocks import Block, Role, unpack

_MAGIC = 0xC03B3998
_INCOMPAT_64BIT = 0x2
_INCOMPAT_CSUM_V2 = 0x8
_INCOMPAT_CSUM_V3 = 0x10
_INCOMPAT_FAST_COMMIT = 0x20
_DESCRIPTOR, _COMMIT, _SUPER_V1, _SUPER_V2, _REVOKE = 1, 2, 3, 4, 5
_TAG_SAME_UUID, _TAG_LAST = 2, 8
_FAST_COMMIT_BLOCKS = 256
"""How many blocks at the end are for fast commits where the superblock says 0 (s_num_fc_blks)."""


@dataclass
class Journal:
    """The journal's place, and what its descriptor blocks announced.

    :ivar blocks: the journal's blocks in order, as blocks of the disk.

    Its features and size follow from its superblock, at first and whenever that is written: mkfs
    leaves features out that the first mount turns on.
    """

    blocks: list[int]
    _first: int = 1
    _last: int = 0
    _incompat: int = 0
    _announced: dict[int, tuple[int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Index the blocks."""
        self._place = {block: index for index, block in enumerate(self.blocks)}
        self._last = len(self.blocks)

    def __contains__(self, block: int) -> bool:
        """Whether a block of the disk is the journal's."""
        return block in self._place

    def learn(self, superblock: bytes) -> None:
        """Take the features and the size from the journal's superblock, its first block."""
        header = unpack(">IIIIII", superblock)
        if header is None or header[0] != _MAGIC or header[1] not in (_SUPER_V1, _SUPER_V2):
            return
        self._first, self._last = header[5], header[4]
        if header[1] == _SUPER_V2:
            (self._incompat,) = unpack(">I", superblock, 0x28) or (0,)
            if self._incompat & _INCOMPAT_FAST_COMMIT:
                (fast_commit_blocks,) = unpack(">I", superblock, 0x54) or (0,)
                self._last -= fast_commit_blocks or _FAST_COMMIT_BLOCKS
        self._last = min(self._last, len(self.blocks))

    def announced(self, block: int) -> tuple[int, int] | None:
        """(transaction, home block) of the copy that a descriptor announced here; asked once."""
        return self._announced.pop(block, None)

    def name(self, block: int, start: int, data: bytes) -> Block:
        """Name a block of the journal that is no announced copy."""
        length = len(data)
        if self._place[block] == 0:
            self.learn(data)
            return Block(start, length, Role.METADATA, "journal superblock")
        if self._place[block] >= self._last:
            return Block(start, length, Role.JOURNAL, "fast commit block of the journal")
        header = unpack(">III", data)
        if header is None or header[0] != _MAGIC:
            return Block(start, length, Role.UNKNOWN, "journal block that no descriptor announced")
        _, kind, transaction = header
        number = str(transaction)
        if kind == _DESCRIPTOR:
            count = self._announce(self._place[block], transaction, data)
            what = f"journal descriptor block {number} ({count} blocks)"
            return Block(start, length, Role.JOURNAL, what, number)
        if kind == _COMMIT:
            return Block(start, length, Role.COMMIT, f"journal commit block {number}", number)
        if kind == _REVOKE:
            return Block(start, length, Role.JOURNAL, f"journal revoke block {number}", number)
        return Block(start, length, Role.UNKNOWN, f"journal block of unknown type {kind}")

    def _announce(self, place: int, transaction: int, data: bytes) -> int:
        """Read a descriptor's tags and note which copies come where; how many."""
        version3 = bool(self._incompat & _INCOMPAT_CSUM_V3)
        version2 = bool(self._incompat & _INCOMPAT_CSUM_V2) and not version3
        wide = bool(self._incompat & _INCOMPAT_64BIT)
        tag_bytes = 16 if version3 else 8 + (4 if wide else 0) + (2 if version2 else 0)
        end = len(data) - (4 if version2 or version3 else 0)
        count, at = 0, 12
        while at + tag_bytes <= end:
            if version3:
                low, flags, high, _ = unpack(">IIII", data, at) or (0, 0, 0, 0)
            else:
                low, _, flags = unpack(">IHH", data, at) or (0, 0, 0)
                (high,) = (unpack(">I", data, at + 8) or (0,)) if wide else (0,)
            count += 1
            block = self._after(place, count)
            if block is not None:
                self._announced[block] = (transaction, low | (high << 32 if wide else 0))
            at += tag_bytes + (0 if flags & _TAG_SAME_UUID else 16)
            if flags & _TAG_LAST:
                break
        return count

    def _after(self, place: int, steps: int) -> int | None:
        """The disk block that is `steps` after a journal block, wrapped at the journal's end."""
        size = self._last - self._first
        if size <= 0:
            return None
        index = self._first + (place - self._first + steps) % size
        return self.blocks[index] if index < len(self.blocks) else None

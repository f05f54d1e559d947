"""XFS: what a written block is.

Format: "XFS Algorithms & Data Structures" (xfs_filesystem_structure), chapters "Superblocks",
"AG Free Space Management", "Journaling Log", "Directories". Everything on disk is big-endian.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from crashsim.explain import xfs_log
from crashsim.explain.blocks import Block, NoLayout, Owner, ReadBytes, Role, merged, pieces, unpack

_FORMAT_EXTENTS = 2

_AT_START = {
    b"XFSB": "superblock",
    b"XAGF": "free space header (AGF)",
    b"XAGI": "inode header (AGI)",
    b"XAFL": "free list (AGFL)",
    b"IN": "inodes",
    b"XDB3": "directory block",
    b"XD2B": "directory block",
    b"XDD3": "directory data block",
    b"XD2D": "directory data block",
    b"XDF3": "directory free index block",
    b"XD2F": "directory free index block",
    b"XSLM": "symlink target block",
    b"AB3B": "free space btree by block",
    b"ABTB": "free space btree by block",
    b"AB3C": "free space btree by size",
    b"ABTC": "free space btree by size",
    b"IAB3": "inode btree",
    b"IABT": "inode btree",
    b"FIB3": "free inode btree",
    b"FIBT": "free inode btree",
    b"RMB3": "reverse mapping btree",
    b"R3FC": "reference count btree",
    b"BMA3": "extent btree block",
    b"BMAP": "extent btree block",
}
_AT_8 = {
    b"\x3d\xf1": "directory leaf block",
    b"\x3d\xff": "directory leaf block",
    b"\x3e\xbe": "directory or attribute node block",
    b"\x3b\xee": "attribute leaf block",
    b"\xd2\xf1": "directory leaf block",
    b"\xd2\xff": "directory leaf block",
    b"\xfe\xbe": "directory or attribute node block",
    b"\xfb\xee": "attribute leaf block",
}


@dataclass(frozen=True, slots=True)
class _Geometry:
    block_bytes: int
    sector_bytes: int
    inode_bytes: int
    group_blocks: int
    groups: int
    group_log: int
    log_start_bytes: int
    log_bytes: int

    def place_bytes(self, filesystem_block: int) -> int:
        """Where a block is on the disk: its number is group and block in the group, packed."""
        group = filesystem_block >> self.group_log
        block = filesystem_block & ((1 << self.group_log) - 1)
        return (group * self.group_blocks + block) * self.block_bytes


def _geometry(superblock: bytes) -> _Geometry:
    if superblock[:4] != b"XFSB":
        raise NoLayout("the disk holds no XFS superblock (its magic number is missing)")
    (block_bytes,) = unpack(">I", superblock, 4) or (0,)
    (log_start,) = unpack(">Q", superblock, 48) or (0,)
    group_blocks, groups, _, log_blocks = unpack(">IIII", superblock, 84) or (0, 0, 0, 0)
    _, sector_bytes, inode_bytes = unpack(">HHH", superblock, 100) or (0, 0, 0)
    (group_log,) = unpack(">B", superblock, 124) or (0,)
    powers = (512, 1024, 2048, 4096, 8192, 16384, 32768, 65536)
    if (
        block_bytes not in powers
        or sector_bytes not in powers
        or inode_bytes not in powers[:3]
        or group_log > 31
        or not 0 < group_blocks <= 1 << group_log
        or not 0 < groups <= 1 << 20
    ):
        raise NoLayout("XFS's superblock holds a geometry that no XFS has")
    geometry = _Geometry(
        block_bytes, sector_bytes, inode_bytes, group_blocks, groups, group_log, 0, 0
    )
    if not log_start:
        return geometry  # the log is on another device, of which nothing can be seen here
    return replace(
        geometry,
        log_start_bytes=geometry.place_bytes(log_start),
        log_bytes=log_blocks * block_bytes,
    )


class XfsLayout:
    """Names XFS's blocks (see `blocks.Layout`). Raises NoLayout where `read` shows no XFS."""

    fstype = "xfs"
    transaction_word = "log record"

    def __init__(self, read: ReadBytes) -> None:
        """Read the geometry."""
        self.geometry = _geometry(read(0, xfs_log.SECTOR_BYTES))
        self._begun = b""
        """A record written in part: at the log's end it goes on at its start."""

    def blocks(self, offset_bytes: int, data: bytes) -> list[Block]:
        """Name a write (see `blocks.Layout.blocks`)."""
        geometry = self.geometry
        into_log = offset_bytes - geometry.log_start_bytes
        if 0 <= into_log < geometry.log_bytes:
            return self._log_blocks(data)
        if self._in_group_headers(offset_bytes, len(data)):
            step = geometry.sector_bytes
        else:
            step = geometry.block_bytes
        return merged([self._block(start, piece) for start, piece in pieces(data, step)])

    def entries(self, data: bytes, name: bytes) -> frozenset[int]:
        """The inodes that entries called `name` point to (see `blocks.Layout.entries`).

        Entries inside an inode have the inode's number (4 bytes: this is right for every
        filesystem below a terabyte) after the name, those in directory blocks (8 bytes) before it.
        """
        if name not in data and not xfs_log.is_record(data):
            return frozenset()
        text = xfs_log.record_body(data) if xfs_log.is_record(data) else data
        found: set[int] = set()
        at = text.find(name)
        while at >= 0:
            if at >= 3 and text[at - 3] == len(name):
                found.update(unpack(">I", text, at + len(name) + 1) or ())
            if at >= 9 and text[at - 1] == len(name):
                found.update(unpack(">Q", text, at - 9) or ())
            at = text.find(name, at + 1)
        return frozenset(inode for inode in found if inode)

    def owners(self, home_bytes: int, data: bytes, place_bytes: int) -> frozenset[Owner]:
        """The inodes with an extent at a place (see `blocks.Layout.owners`).

        Only extents in the inode itself count, as in most small files.
        """
        logged = xfs_log.is_record(data)
        forks = xfs_log.logged_extents(data) if logged else self._forks(data)
        return frozenset(
            owner
            for owner, fork in forks
            for block, count in xfs_log.extents(fork)
            if 0
            <= place_bytes - self.geometry.place_bytes(block)
            < count * self.geometry.block_bytes
        )

    def inline_owners(self, data: bytes, content: bytes) -> frozenset[int]:
        """None: XFS keeps no file's content inside its inode."""
        return frozenset()

    def _forks(self, data: bytes) -> Iterator[tuple[Owner, bytes]]:
        """(inode and its size, data fork) of the inodes in a block whose fork holds extents."""
        for _, inode in pieces(data, self.geometry.inode_bytes):
            kind = unpack(">BB", inode, 4)
            number = unpack(">Q", inode, 152)
            size = unpack(">Q", inode, 56)
            if inode[:2] != b"IN" or kind != (3, _FORMAT_EXTENTS):
                continue
            if number is not None and size is not None:
                fork_end = inode[82] * 8  # di_forkoff: where the attribute fork begins
                yield (
                    Owner(number[0], size[0]),
                    inode[176 : 176 + fork_end if fork_end else len(inode)],
                )

    def _in_group_headers(self, offset_bytes: int, length: int) -> bool:
        """Whether a write lies in the four sectors that begin an allocation group."""
        geometry = self.geometry
        into_group = offset_bytes % (geometry.group_blocks * geometry.block_bytes)
        return into_group + length <= 4 * geometry.sector_bytes

    def _block(self, start: int, data: bytes) -> Block:
        what = _AT_START.get(data[:4]) or _AT_START.get(data[:2]) or _AT_8.get(data[8:10])
        if what is None:
            return Block(start, len(data), Role.UNKNOWN, "file data or metadata")
        if what == "inodes":
            what = self._inode_numbers(data)
        return Block(start, len(data), Role.METADATA, what)

    def _inode_numbers(self, data: bytes) -> str:
        """The numbers (di_ino, there since version 3 inodes) of the first and last inode."""
        numbers = []
        for _, inode in pieces(data, self.geometry.inode_bytes):
            version = unpack(">B", inode, 4)
            number = unpack(">Q", inode, 152)
            if inode[:2] == b"IN" and version == (3,) and number is not None:
                numbers.append(number[0])
        return f"inodes {numbers[0]} to {numbers[-1]}" if numbers else "inodes"

    def _log_blocks(self, data: bytes) -> list[Block]:
        """Cut a write to the log into its records."""
        found: list[Block] = []
        at = 0
        while at < len(data):
            record = self._begun + data[at:]
            length = xfs_log.record_bytes(record)
            if length is None:
                self._begun = b""
                here = min(xfs_log.SECTOR_BYTES, len(data) - at)
                found.append(Block(at, here, Role.UNKNOWN, "log block without a record header"))
            else:
                here = min(length - len(self._begun), len(data) - at)
                whole = len(record) >= length
                found.append(self._record_block(at, here, record[:length], whole))
                self._begun = b"" if whole else record
            at += here
        return merged(found)

    @staticmethod
    def _record_block(start: int, length: int, record: bytes, whole: bool) -> Block:
        """A record counts from its checkpoint's commit record on, often inside the same record."""
        cycle, block = unpack(">II", record, 16) or (0, 0)
        number = f"{cycle}:{block}"
        if whole and xfs_log.ends_checkpoint(record):
            return Block(start, length, Role.COMMIT, f"log record {number}", number)
        # Its checkpoint goes on in a later record, and counts with that one.
        return Block(start, length, Role.JOURNAL, f"log record {number}, without a commit")

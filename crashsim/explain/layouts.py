"""Find the layout of a disk: which filesystem's rules name its blocks."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from crashsim.explain.blocks import Block, Layout, NoLayout, Owner, ReadBytes, Role
from crashsim.explain.btrfs import BtrfsLayout
from crashsim.explain.ext4 import Ext4Layout
from crashsim.explain.f2fs import F2fsLayout
from crashsim.explain.xfs import XfsLayout

_LAYOUTS: Mapping[str, Callable[[ReadBytes], Layout]] = MappingProxyType(
    {layout.fstype: layout for layout in (Ext4Layout, XfsLayout, BtrfsLayout, F2fsLayout)}
)


def read_layout(fstype: str, read: ReadBytes) -> Layout:
    """The layout of the filesystem on a disk.

    :param fstype: as mount(2) takes it.
    :param read: the disk at the moment from which writes will be named.

    Raises NoLayout for a filesystem that crashsim cannot name the blocks of, or where the disk does
    not hold what it should.
    """
    if fstype not in _LAYOUTS:
        known = ", ".join(_LAYOUTS)
        raise NoLayout(f"the blocks of {fstype!r} cannot be named: crashsim knows {known}")
    return _LAYOUTS[fstype](read)


class SeveralDisks:
    """Of several disks no block is named but by its disk: their filesystems have inodes, blocks and
    transactions of equal numbers, and what is true of one may be false of the other.
    """

    transaction_word = "commit"

    def __init__(self, fstype: str, disk_bytes: int) -> None:
        """Disks of this size, one after the other."""
        self.fstype = fstype
        self.disk_bytes = disk_bytes

    def blocks(self, offset_bytes: int, data: bytes) -> list[Block]:
        """One block."""
        number = offset_bytes // self.disk_bytes + 1
        return [Block(0, len(data), Role.UNKNOWN, f"a block of disk {number}")]

    def entries(self, data: bytes, name: bytes) -> frozenset[int]:
        """None are told."""
        return frozenset()

    def owners(self, home_bytes: int, data: bytes, place_bytes: int) -> frozenset[Owner]:
        """None are told."""
        return frozenset()

    def inline_owners(self, data: bytes, content: bytes) -> frozenset[int]:
        """None are told."""
        return frozenset()

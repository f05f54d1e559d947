"""Find the layout of a disk: which filesystem's rules name its blocks."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from crashsim.explain.blocks import Layout, NoLayout, ReadBytes
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

"""What a persistence model is: the rules by which a crash keeps some changes and loses others.

A model is asked, for one cut of a log, for its *worlds*: each is a set of names that may have
survived together, with the limits that it puts on what the files then hold. Below a world every
file's content is chosen on its own (`contents.py`), so a crash state is a world and one choice a
file. The models in prose: docs/persistence-models.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from crashsim.model.operations import Entry, Log, Operation, Sync

NEVER = 1 << 62
"""A number that no operation has."""

LISTED_WORLDS_LIMIT = 64
"""With more worlds than this only some are gone through one by one; the others by chance."""


@dataclass(frozen=True, slots=True)
class DataRules:
    """How file content reaches the disk.

    :ivar independent: nothing is ordered: any part of any change, without what was before it.
    :ivar size_after_data: a file's new size is recorded once the page that it ends in is written.
    :ivar copy_on_write: written data becomes visible with the metadata that points to it, only.
    :ivar unit_bytes: what the device writes whole; for copy on write, what is checksummed as one.
    :ivar page_bytes: what the kernel writes back as one.
    """

    independent: bool = False
    size_after_data: bool = False
    copy_on_write: bool = False
    unit_bytes: int = 512
    page_bytes: int = 4096


@dataclass(frozen=True, slots=True)
class World:
    """One set of names that may survive, and what that means for the files.

    :ivar kept: the surviving changes of names among those that are not settled, in order.
    :ivar horizon: no metadata change of a file (size, mode, truncation) with this number or a
        later one can have survived, but for those below the file's floor.
    :ivar floors: for each inode: its changes below this number have survived, all of them.
    :ivar horizons: the inodes that have a horizon of their own, and that: NEVER while a file's sync
        is under way, or that of the filesystem that it is on.
    """

    kept: tuple[Entry, ...]
    horizon: int
    floors: Mapping[int, int]
    horizons: Mapping[int, int] = field(default_factory=dict)

    def horizon_of(self, inode: int) -> int:
        """Changes of this file's metadata from this number on are lost, unless below its floor."""
        return self.horizons.get(inode, self.horizon)

    def floor(self, inode: int) -> int:
        """Changes of this file below this number have survived."""
        return self.floors.get(inode, 0)


class Worlds(Protocol):
    """The worlds of one cut, by index. In the first nothing is lost, and no world's floors are
    below those of the last."""

    @property
    def count(self) -> int:
        """How many there are; it may be far too many to go through."""

    def world(self, index: int) -> World:
        """One of them."""

    def listed(self) -> list[int]:
        """Those that are gone through one by one, where there are too many for all."""


def near_the_ends(count: int) -> list[int]:
    """Of so many worlds all, or those that lose or keep little, by the bits of their index."""
    if count <= LISTED_WORLDS_LIMIT:
        return list(range(count))
    bits = [1 << bit for bit in range((count - 1).bit_length())]
    near_all = [count - 1 - bit for bit in bits]
    return [0, *(bit for bit in bits if bit < count), count - 1, *near_all]


class Tracker(Protocol):
    """What a model knows of one log, as far as it has been shown."""

    def observe(self, operation: Operation) -> None:
        """The next operation of the log has been made (a sync: has returned)."""

    @property
    def settled(self) -> int:
        """Every change of names below this number has survived in every world."""

    def worlds(self, cut: int, under_way: Sync | None) -> Worlds:
        """What may be left at a power cut before the operation numbered `cut`.

        :param under_way: that operation, where it is a sync: it may have had an effect already.
        """


class Model(Protocol):
    """A persistence model."""

    @property
    def name(self) -> str:
        """As on the command line."""

    @property
    def data(self) -> DataRules:
        """How file content behaves."""

    def start(self, log: Log) -> Tracker:
        """Begin with a log, nothing of it seen yet."""


@dataclass(frozen=True, slots=True)
class WorldList:
    """Worlds that are few enough to be listed."""

    items: tuple[World, ...]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.items)

    def world(self, index: int) -> World:
        """One of them."""
        return self.items[index]

    def listed(self) -> list[int]:
        """Those that are gone through one by one."""
        return near_the_ends(self.count)

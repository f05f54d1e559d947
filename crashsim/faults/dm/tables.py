"""Tables: which target serves which sectors of a device."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from .abi import NAME_BYTES_MAX, SECTOR_BYTES, TargetRow
from .errors import BadTable

OUR_NAME_BYTES_MAX = 60
"""Of DM_NAME_LEN's 127: a device's uuid holds its name, too."""

SECTORS_MAX = 1 << 54
"""More than any block device can have: 2^63 bytes."""

assert OUR_NAME_BYTES_MAX < NAME_BYTES_MAX
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9#+.:=@_-]*")
"""What libdevmapper and udev leave as it is in a name."""


class Target(Protocol):
    """A kind of mapping with its parameters, as a frozen dataclass."""

    kind: ClassVar[str]
    """The kernel's name of it."""

    @property
    def arguments(self) -> str:
        """Its parameters as they stand in a table."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One row of a table. Raises BadTable for a range that is none."""

    start_sector: int
    length_sectors: int
    target: Target

    def __post_init__(self) -> None:
        """Check the range."""
        within("the start of a segment", self.start_sector, 0, SECTORS_MAX)
        within("the length of a segment", self.length_sectors, 1, SECTORS_MAX - self.start_sector)


Table = Sequence[Segment]


def whole(size_bytes: int, target: Target) -> Table:
    """A device of `size_bytes` that is one target. Raises BadTable."""
    if size_bytes % SECTOR_BYTES:
        raise BadTable(f"{size_bytes} bytes are not whole sectors of {SECTOR_BYTES}")
    return (Segment(0, size_bytes // SECTOR_BYTES, target),)


def rows_of(table: Table) -> list[TargetRow]:
    """The table as the kernel takes it: without a gap from sector 0 on. Raises BadTable."""
    expected = 0
    rows = []
    for segment in table:
        if segment.start_sector != expected:
            raise BadTable(
                f"a segment begins at sector {segment.start_sector}, the one before it ends at "
                f"{expected}: a table has neither gaps nor overlaps"
            )
        expected += segment.length_sectors
        arguments = segment.target.arguments
        rows.append(
            TargetRow(segment.start_sector, segment.length_sectors, segment.target.kind, arguments)
        )
    if not rows:
        raise BadTable("an empty table: give it one segment at least")
    return rows


def check_name(name: str) -> str:
    """The name, if a device may have it; BadTable otherwise."""
    if not _NAME.fullmatch(name) or len(name) > OUR_NAME_BYTES_MAX or name == "control":
        raise BadTable(
            f"{name!r} cannot be a device's name: up to {OUR_NAME_BYTES_MAX} letters, digits and "
            "any of #+.:=@_-"
        )
    return name


def within(what: str, value: int, least: int, most: int) -> None:
    """Raise BadTable unless a number is in its range."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise BadTable(f"{what} is {value!r}: it must be a whole number from {least} to {most}")


def device_argument(path: str) -> str:
    """A device in a table, by its path or as `major:minor`. Raises BadTable."""
    if not path or any(character < " " for character in path):
        raise BadTable(f"{path!r} cannot be a device's path")
    return escaped(path)


def escaped(argument: str) -> str:
    """An argument such that the kernel takes it for one: dm_split_args in drivers/md/dm-table.c."""
    return re.sub(r"([\\\s])", r"\\\1", argument)

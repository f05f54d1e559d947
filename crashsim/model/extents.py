"""A file in the page cache, unit by unit: which moments of it the disk may show."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from crashsim.model.operations import Resize, Write
from crashsim.model.persistence import DataRules


@dataclass(frozen=True, slots=True)
class Level:
    """A size that the file may have.

    :ivar number: the change that gave it this size, or -1: it had it before.
    :ivar needs_page: the page that it ends in is written, as of that change.
    """

    size: int
    number: int
    needs_page: bool


@dataclass(frozen=True, slots=True)
class Version:
    """A unit at one moment: after its first `writes` pending writes.

    :ivar data: its bytes, as long as the unit is in the largest file.
    """

    writes: int
    data: bytes


def levels_of(
    start: bytes,
    pending: Sequence[Write | Resize],
    horizon: int,
    rules: DataRules,
    unit_bytes: int,
) -> Iterator[Level]:
    """The sizes that a file may have, the latest first.

    A size is recorded as pages are written back, so a write of many pages may leave the size at
    any of their ends. The last truncation that survived leaves no earlier size.
    """
    levels = [Level(len(start), -1, False)]
    step = max(unit_bytes, rules.page_bytes)
    for change in pending:
        if change.number >= horizon:
            break
        if isinstance(change, Resize):
            levels = [Level(change.length, change.number, False)]
        elif change.extends:
            ends = range(change.size_before // step * step + step, change.end, step)
            needs = rules.size_after_data
            levels += (Level(end, change.number, needs) for end in ends if end > change.offset)
            levels.append(Level(change.end, change.number, needs))
    return reversed(levels)


@dataclass(frozen=True, slots=True)
class Extents:
    """The units that pending writes touch, each with its versions.

    :ivar size: the largest size that the file may have.
    :ivar units: for each touched unit its index, the writes that touch it, its versions.
    """

    start: bytes
    pending: Sequence[Write | Resize]
    unit_bytes: int
    size: int
    units: tuple[tuple[int, tuple[Write, ...], tuple[Version, ...]], ...]

    @classmethod
    def of(
        cls,
        start: bytes,
        pending: Sequence[Write | Resize],
        horizon: int,
        rules: DataRules,
        pieces: int | None,
    ) -> "Extents":
        """The units of a file with these pending changes."""
        resizes = [each for each in pending if isinstance(each, Resize) and each.number < horizon]
        writes = _visible_writes(pending, horizon, rules)
        unit = rules.page_bytes if rules.copy_on_write else rules.unit_bytes
        longest = max((len(each.data) for each in writes), default=0)
        while pieces is not None and longest > unit * pieces:
            unit *= 2
        ends = [each.end for each in writes] + [each.length for each in resizes]
        size = max([len(start), *ends])
        touched: dict[int, list[Write]] = {}
        for write in writes:
            for index in range(write.offset // unit, -(-write.end // unit)):
                touched.setdefault(index, []).append(write)
        units = tuple(
            (index, tuple(mine), tuple(_versions(start, index * unit, unit, size, mine, resizes)))
            for index, mine in sorted(touched.items())
        )
        return cls(_resized(start, resizes), pending, unit, size, units)

    def versions(self, level: Level, rules: DataRules) -> list[tuple[Version, ...]]:
        """What each touched unit below a size may be."""
        result = []
        page = (level.size - 1) // rules.page_bytes * rules.page_bytes
        for index, writes, versions in self.units:
            low = index * self.unit_bytes
            if low >= level.size:
                break
            if level.needs_page and low + self.unit_bytes > page:
                least = sum(write.number <= level.number for write in writes)
                versions = tuple(each for each in versions if each.writes >= least)
            result.append(versions)
        return result

    def content(self, size: int, versions: Sequence[Version]) -> bytes:
        """The file of this size with these versions of its touched units."""
        content = bytearray(self.start[:size].ljust(size, b"\0"))
        for (index, _, _), version in zip(self.units, versions, strict=False):
            low = index * self.unit_bytes
            content[low : low + self.unit_bytes] = version.data[: size - low]
        return bytes(content)

    def missing(
        self, level: Level, versions: Sequence[Version]
    ) -> tuple[dict[int, list[bool]], int]:
        """For each write: for each of its units below the size whether it is missing there."""
        missing: dict[int, list[bool]] = {}
        last = level.number
        for (_, writes, _), version in zip(self.units, versions, strict=False):
            for position, write in enumerate(writes):
                is_missing = position >= version.writes
                missing.setdefault(write.number, []).append(is_missing)
                if not is_missing:
                    last = max(last, write.number)
        return missing, last


def zeroed_tail(resize: Resize, page_bytes: int) -> Write | None:
    """What a truncation writes: zeros to the end of the page that it ends in, where that is data.

    It is written back like any other data, and may be there without the truncation.
    """
    end = min(resize.size_before, -(-resize.length // page_bytes) * page_bytes)
    if end <= resize.length:
        return None
    zeros = bytes(end - resize.length)
    size = resize.size_before
    return Write(resize.number, resize.inode, resize.path, resize.length, zeros, size)


def _visible_writes(
    pending: Sequence[Write | Resize], horizon: int, rules: DataRules
) -> list[Write]:
    """The pending writes, as far as they may show: what was written to blocks that a truncation
    had freed is nowhere to be seen if the truncation is lost."""
    limit: int | None = None
    writes = []
    for change in pending:
        if rules.copy_on_write and change.number >= horizon:
            break
        if isinstance(change, Resize):
            if change.number >= horizon:
                tail = zeroed_tail(change, rules.page_bytes)
                writes += [] if tail is None else _below(tail, limit)
                end = -(-change.length // rules.page_bytes) * rules.page_bytes
                limit = end if limit is None else min(limit, end)
        else:
            writes += _below(change, limit)
    return writes


def _below(write: Write, limit: int | None) -> list[Write]:
    """The part of a write below an offset, if there is one."""
    if limit is None or write.end <= limit:
        return [write]
    if write.offset >= limit:
        return []
    return [replace(write, data=write.data[: limit - write.offset])]


def _resized(start: bytes, resizes: Sequence[Resize]) -> bytes:
    for resize in resizes:
        start = start[: resize.length].ljust(resize.length, b"\0")
    return start


def _versions(
    start: bytes,
    low: int,
    unit: int,
    size: int,
    writes: Sequence[Write],
    resizes: Sequence[Resize],
) -> Iterator[Version]:
    """The versions of one unit, the latest first; of equal ones only the latest."""
    high = min(low + unit, size)
    seen = set()
    for count in range(len(writes), -1, -1):
        data = bytearray(start[low:high].ljust(high - low, b"\0"))
        changes: list[Write | Resize] = [*writes[:count], *resizes]
        for change in sorted(changes, key=lambda each: each.number):
            if isinstance(change, Resize):
                keep = max(0, change.length - low)
                data[keep:] = bytes(len(data[keep:]))
            else:
                first, last = max(change.offset, low), min(change.end, high)
                piece = change.data[first - change.offset : last - change.offset]
                data[first - low : last - low] = piece
        if bytes(data) not in seen:
            seen.add(bytes(data))
            yield Version(count, bytes(data))

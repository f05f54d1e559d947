"""The disk images that crash states stand for, resolved from the log without copying anything."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from crashsim.disk.durability import durable_positions
from crashsim.disk.history import SECTORS_PER_PAGE, History, Int64s
from crashsim.disk.identity import Identities
from crashsim.disk.log import Log
from crashsim.disk.profile import DEFAULT_PROFILE, DeviceProfile
from crashsim.disk.request import PAGE_BYTES, SECTOR_BYTES, Operation
from crashsim.disk.scratch import next_extent
from crashsim.disk.state import CrashState, TornWrite
from crashsim.errors import UsageError

FROM_BASE = -1
"""In place of a request number: no kept request covers this, so it holds what the base holds."""


class IllegalState(UsageError):
    """A crash state that no power cut can leave: it loses what was durable, say."""


class BaseUnreadable(UsageError):
    """The base image of a recording is missing or too large."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """A crash state made ready for look-ups.

    :ivar submitted: requests numbered below this were submitted before the cut.
    :ivar torn: write -> the units that were kept.
    :ivar changed: the dropped and torn requests, ascending.
    """

    submitted: int
    dropped: frozenset[int]
    torn: dict[int, frozenset[int]]
    changed: Int64s


class ImageIndex:
    """All crash states of one log as disk images. Every method may be called from any thread.

    Costs depend on what is asked and on how much a state drops or tears; a log's length enters by
    its logarithm only. Made once for a log, in time linear in what was written.
    """

    def __init__(
        self, log: Log, profile: DeviceProfile = DEFAULT_PROFILE, base: Path | None = None
    ) -> None:
        """Index a log.

        :param base: the image that the recording started from; None for a disk of zeroes.
            Raises BaseUnreadable.
        """
        self.log = log
        self.profile = profile
        self.size_bytes = log.size_bytes
        self._base = None if base is None else _Base(base, log.size_bytes)
        base_pages = np.zeros(0, np.int64) if self._base is None else self._base.pages()
        self.history = History.build(log.requests, base_pages)
        self._identities = Identities(self)
        self.resolve = lru_cache(maxsize=64)(self._resolve)

    @property
    def has_base(self) -> bool:
        """Whether the recording started from an image instead of zeroes."""
        return self._base is not None

    @cached_property
    def durable(self) -> Int64s:
        """What `durable_positions` says under this index's profile."""
        return durable_positions(self.log, self.profile)

    def page(self, state: CrashState, number: int) -> bytes:
        """The 4096 bytes of page `number` (the last page may be shorter)."""
        offset = number * PAGE_BYTES
        return self.read(state, offset, min(PAGE_BYTES, self.size_bytes - offset))

    def read(self, state: CrashState, offset_bytes: int, length_bytes: int) -> bytes:
        """A range of a state's image, in whole sectors. Raises ValueError outside of the disk."""
        end = offset_bytes + length_bytes
        if (offset_bytes | length_bytes) % SECTOR_BYTES or not 0 <= offset_bytes <= end:
            raise ValueError("read in whole sectors")
        if end > self.size_bytes:
            raise ValueError(f"{end} is beyond the end of the disk, {self.size_bytes}")
        result = bytearray(length_bytes)
        first = offset_bytes // SECTOR_BYTES
        sources = self._sources(self.resolve(state), first, end // SECTOR_BYTES)
        self._fill(memoryview(result), first, sources)
        return bytes(result)

    def page_digest(self, state: CrashState, number: int) -> int:
        """128 bits that are equal for states in which this page holds the same."""
        return self._identities.page_digest(self.resolve(state), number)

    def page_digests(self, state: CrashState, numbers: Iterable[int]) -> list[int]:
        """`page_digest` of many pages."""
        resolution = self.resolve(state)
        return [self._identities.page_digest(resolution, number) for number in numbers]

    def identity(self, state: CrashState) -> int:
        """128 bits that are equal for states whose images are equal: within one log only.

        Costs what the state drops and tears, once the log up to the cut was hashed.
        """
        return self._identities.identity(self.resolve(state))

    def differing_pages(self, one: CrashState, other: CrashState) -> Int64s:
        """The pages that hold different things in two states, ascending.

        Costs what was submitted between their cuts and what they drop and tear.
        """
        return self._identities.differing_pages(self.resolve(one), self.resolve(other))

    def check_legal(self, state: CrashState) -> None:
        """Raise IllegalState for a state that no power cut can leave."""
        if not 0 <= state.cut <= self.log.event_count:
            raise IllegalState(f"cut {state.cut} is not in a log of {self.log.event_count} events")
        submitted = self.log.submitted_before(state.cut)
        torn = [each.write for each in state.torn]
        twice = state.dropped.intersection(torn)
        if twice or len(set(torn)) != len(torn):
            raise IllegalState(
                f"write {min(twice or torn)} is both dropped and torn, or torn twice"
            )
        changes_media = self.log.requests.changes_media
        for number in state.dropped.union(torn):
            if not 0 <= number < submitted or not changes_media[number]:
                raise IllegalState(f"request {number} is no write before the cut {state.cut}")
            if self.durable[number] <= state.cut:
                raise IllegalState(f"write {number} was durable at the cut {state.cut}")
        for each in state.torn:
            self._check_torn(each)

    def _check_torn(self, torn: TornWrite) -> None:
        length = int(self.log.requests.length_bytes[torn.write])
        units = -(-length // self.profile.atomic_unit_bytes)
        kept = torn.kept_units
        if list(kept) != sorted(set(kept)) or not 0 < len(kept) < units:
            raise IllegalState(f"write {torn.write}: kept units are no proper part, in order")
        if kept[0] < 0 or kept[-1] >= units:
            raise IllegalState(f"write {torn.write} has only {units} units, not {kept[-1]}")

    def _resolve(self, state: CrashState) -> Resolution:
        torn = {each.write: frozenset(each.kept_units) for each in state.torn}
        changed = np.array(sorted(state.dropped.union(torn)), np.int64)
        submitted = self.log.submitted_before(state.cut)
        return Resolution(submitted, state.dropped, torn, changed)

    def _sources(self, resolution: Resolution, first_sector: int, end_sector: int) -> Int64s:
        """Which request each sector's contents are from, or FROM_BASE."""
        first_page = first_sector // SECTORS_PER_PAGE
        end_page = -(-end_sector // SECTORS_PER_PAGE)
        by_page = np.full((end_page - first_page, SECTORS_PER_PAGE), FROM_BASE, np.int64)
        history = self.history
        skipped = first_page * SECTORS_PER_PAGE
        low, high = history.cells_between(skipped, end_page * SECTORS_PER_PAGE)
        if low < high:
            newest = history.newest_of(low, high, resolution.submitted)
            sectors = history.sectors[low:high].astype(np.int64) - skipped
            is_page = history.is_page[low:high]
            by_page[sectors[is_page] // SECTORS_PER_PAGE] = newest[is_page, None]
            by_sector = by_page.reshape(-1)
            by_sector[sectors[~is_page]] = newest[~is_page]
            if len(resolution.changed):
                for index in np.flatnonzero(np.isin(newest, resolution.changed)):
                    found = self.sector_sources(resolution, low + int(index))
                    start = int(sectors[index])
                    by_sector[start : start + len(found)] = found
        return by_page.reshape(-1)[first_sector - skipped : end_sector - skipped]

    def cell_source(self, resolution: Resolution, cell: int) -> int | None:
        """Which request a cell's contents are from; None if different sectors' are from several."""
        newest = self.history.newest(cell, resolution.submitted)
        if newest not in resolution.dropped and newest not in resolution.torn:
            return newest
        found = self.sector_sources(resolution, cell)
        return found[0] if found.count(found[0]) == len(found) else None

    def sector_sources(self, resolution: Resolution, cell: int) -> list[int]:
        """Which request each sector of a cell is from, looking past what is dropped or torn."""
        first = int(self.history.sectors[cell])
        count = SECTORS_PER_PAGE if self.history.is_page[cell] else 1
        found = [FROM_BASE] * count
        open_sectors = set(range(count))
        for write in self.history.older_first(cell, resolution.submitted):
            if write in resolution.dropped:
                continue
            kept = resolution.torn.get(write)
            if kept is None:
                taken = set(open_sectors)
            else:
                taken = {each for each in open_sectors if self._unit(write, first + each) in kept}
            for each in taken:
                found[each] = write
            open_sectors -= taken
            if not open_sectors:
                break
        return found

    def _unit(self, write: int, sector: int) -> int:
        offset = sector * SECTOR_BYTES - int(self.log.requests.offset_bytes[write])
        return offset // self.profile.atomic_unit_bytes

    def cell_contents(self, cell: int, sources: list[int]) -> bytes:
        """What a cell holds if its sectors are from these requests."""
        result = bytearray(len(sources) * SECTOR_BYTES)
        first = int(self.history.sectors[cell])
        self._fill(memoryview(result), first, np.array(sources, np.int64))
        return bytes(result)

    def _fill(self, buffer: memoryview, first_sector: int, sources: Int64s) -> None:
        """Read each sector from where it is; one read for what lies together in a file."""
        requests = self.log.requests
        sectors = np.arange(first_sector, first_sector + len(sources))
        # An index of -1 looks at the last request, whose values are then not used.
        is_data = (sources >= 0) if len(requests) else np.zeros(len(sources), np.bool_)
        place = np.full(len(sources), -1, np.int64)
        if is_data.any():
            is_data &= requests.operation[sources] == Operation.WRITE
            owners = sources[is_data]
            inside = sectors[is_data] * SECTOR_BYTES - requests.offset_bytes[owners]
            place[is_data] = requests.data_offset[owners] + inside
        for start, end in _runs(place, is_data, sources == FROM_BASE):
            part = buffer[start * SECTOR_BYTES : end * SECTOR_BYTES]
            if is_data[start]:
                self.log.read_data_into(int(place[start]), part)
            elif self._base is not None and sources[start] == FROM_BASE:
                self._base.read_into(int(sectors[start]) * SECTOR_BYTES, part)


def _runs(
    place: Int64s, is_data: npt.NDArray[np.bool_], is_base: npt.NDArray[np.bool_]
) -> Iterable[tuple[int, int]]:
    """Ranges of sectors that are of one kind and, if data, one after the other in the log."""
    breaks = (is_data[1:] != is_data[:-1]) | (is_base[1:] != is_base[:-1])
    breaks |= is_data[1:] & (place[1:] != place[:-1] + SECTOR_BYTES)
    bounds = [0, *(np.flatnonzero(breaks) + 1).tolist(), len(place)]
    return pairwise(bounds) if len(place) else ()


class _Base:
    """The image that a recording started from."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise BaseUnreadable(f"base image {path}: {error.strerror}") from error
        self._size = os.fstat(self._file.fileno()).st_size
        if self._size > size_bytes:
            raise BaseUnreadable(f"base image {path} is larger than the disk ({size_bytes} bytes)")

    def pages(self) -> Int64s:
        """The pages that may hold other bytes than zeroes, ascending."""
        offset, parts = 0, [np.zeros(0, np.int64)]
        while (extent := next_extent(self._file.fileno(), offset, self._size)) is not None:
            start, offset = extent
            parts.append(np.arange(start // PAGE_BYTES, -(-offset // PAGE_BYTES)))
        return np.unique(np.concatenate(parts))

    def read_into(self, offset_bytes: int, buffer: memoryview) -> None:
        """Read; what is beyond the end of the image stays as it is, zero."""
        done = 0
        while done < len(buffer):
            count = os.preadv(self._file.fileno(), [buffer[done:]], offset_bytes + done)
            if not count:
                return
            done += count

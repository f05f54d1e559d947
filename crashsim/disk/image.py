"""The disk images that crash states stand for, resolved from the log without copying anything."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from crashsim.disk.base_image import BaseImage
from crashsim.disk.durability import durable_positions
from crashsim.disk.history import FROM_BASE, SECTORS_PER_PAGE, History, Int64s
from crashsim.disk.identity import Identities
from crashsim.disk.log import Log
from crashsim.disk.profile import DEFAULT_PROFILE, DeviceProfile
from crashsim.disk.request import PAGE_BYTES, SECTOR_BYTES, Operation
from crashsim.disk.state import CrashState, TornWrite
from crashsim.errors import UsageError

Piece = tuple[int, int, int]
"""First sector, the one after the last, and the request that their contents are from."""


class IllegalState(UsageError):
    """A crash state that no power cut can leave: it loses what was durable, say."""


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
        self._base = None if base is None else BaseImage(base, log.size_bytes)
        self._base_pages = np.zeros(0, np.int64) if self._base is None else self._base.pages()
        self.history = History.build(log.requests, self._base_pages)
        # Views whose items are plain ints: single look-ups in an array are slow.
        self._operation: memoryview = log.requests.operation.data
        self._offset: memoryview = log.requests.offset_bytes.data
        self._data_offset: memoryview = log.requests.data_offset.data
        self._identities = Identities(self)
        self.resolve = lru_cache(maxsize=64)(self._resolve)

    def pages(self) -> Int64s:
        """The pages that may hold something else than zeroes in some state, ascending."""
        written = self.history.sectors.astype(np.int64) // SECTORS_PER_PAGE
        return np.unique(np.concatenate((self._base_pages, written)))

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
        view = memoryview(result)
        if self._base is not None:
            self._base.read_into(offset_bytes, view)
        first = offset_bytes // SECTOR_BYTES
        self._fill(view, first, self._pieces(self.resolve(state), first, end // SECTOR_BYTES))
        return bytes(result)

    def pages_between(self, first_sector: int, end_sector: int) -> Int64s:
        """The pages in a range of sectors that may differ between states, ascending, repeated."""
        low, high = self._cells_touching(first_sector, end_sector)
        return self.history.sectors[low:high].astype(np.int64) // SECTORS_PER_PAGE

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

    def _pieces(
        self, resolution: Resolution, first_sector: int, end_sector: int
    ) -> Iterator[Piece]:
        """What of a range of sectors is from which request; what is left out is from the base."""
        for cell in range(*self._cells_touching(first_sector, end_sector)):
            start, end = self.history.extent(cell)
            source = self.cell_source(resolution, cell)
            if source is None:
                sources = self.sector_sources(resolution, cell)
                pieces = [(start + i, start + i + 1, each) for i, each in enumerate(sources)]
            else:
                pieces = [(start, end, source)]
            for start, end, source in pieces:
                start, end = max(start, first_sector), min(end, end_sector)
                if start < end and source != FROM_BASE:
                    yield start, end, source

    def _cells_touching(self, first_sector: int, end_sector: int) -> tuple[int, int]:
        first_page = first_sector // SECTORS_PER_PAGE
        end_page = -(-end_sector // SECTORS_PER_PAGE)
        return self.history.cells_between(
            first_page * SECTORS_PER_PAGE, end_page * SECTORS_PER_PAGE
        )

    def _fill(self, view: memoryview, first_sector: int, pieces: Iterable[Piece]) -> None:
        """Put pieces into a buffer; one read for what lies together in the log's file."""
        begin, stop, place = 0, 0, 0
        for start, end, source in pieces:
            at, after = (start - first_sector) * SECTOR_BYTES, (end - first_sector) * SECTOR_BYTES
            if self._operation[source] != Operation.WRITE:
                view[at:after] = bytes(after - at)
                continue
            found = self._data_offset[source] + start * SECTOR_BYTES - self._offset[source]
            if at != stop or found != place + stop - begin:
                self._read_log(view[begin:stop], place)
                begin, place = at, found
            stop = after
        self._read_log(view[begin:stop], place)

    def _read_log(self, view: memoryview, place: int) -> None:
        if len(view):
            self.log.read_data_into(place, view)

    def cell_source(self, resolution: Resolution, cell: int) -> int | None:
        """Which request a cell's contents are from; None if a torn write makes it several."""
        newest = self.history.newest(cell, resolution.submitted)
        if newest not in resolution.dropped and newest not in resolution.torn:
            return newest
        for write in self.history.older_first(cell, resolution.submitted):
            if write in resolution.torn:
                return None
            if write not in resolution.dropped:
                return write
        return FROM_BASE

    def sector_sources(self, resolution: Resolution, cell: int) -> list[int]:
        """Which request each sector of a cell is from, looking past what is dropped or torn."""
        first, end = self.history.extent(cell)
        found = [FROM_BASE] * (end - first)
        open_sectors = set(range(end - first))
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
        offset = sector * SECTOR_BYTES - self._offset[write]
        return offset // self.profile.atomic_unit_bytes

    def contents(self, cell: int, sources: Sequence[int]) -> bytes:
        """What a cell holds if its sectors are from these requests; one is for all of them."""
        first, end = self.history.extent(cell)
        result = bytearray((end - first) * SECTOR_BYTES)
        view = memoryview(result)
        if self._base is not None:
            self._base.read_into(first * SECTOR_BYTES, view)
        if len(sources) == 1:
            pieces = [(first, end, sources[0])]
        else:
            pieces = [(first + i, first + i + 1, each) for i, each in enumerate(sources)]
        self._fill(view, first, (piece for piece in pieces if piece[2] != FROM_BASE))
        return bytes(result)

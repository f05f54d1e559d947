"""Which requests changed which part of the disk: the index that crash states are resolved by.

The disk is looked at in *cells*. A page that every request covered wholly or not at all is one
cell; a page of which some request covered a part is eight, one a sector. So a request covers a
cell wholly or not at all, and what a cell holds is decided by a single request: the newest one kept
(only a torn write needs a closer look). Pages that no request gave data to have no cell: they hold
what the base holds, zeroes without one.

Compressed sparse rows: `writes[starts[c]:starts[c + 1]]` are the requests that cover cell `c`,
ascending. That is 4 bytes for each page of each write, and 9 for each cell.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from crashsim.disk.log import Requests
from crashsim.disk.request import PAGE_BYTES, SECTOR_BYTES, Operation
from crashsim.errors import UsageError

SECTORS_PER_PAGE = PAGE_BYTES // SECTOR_BYTES

FROM_BASE = -1
"""In place of a request number: no kept request covers this, so it holds what the base holds."""

Int64s = npt.NDArray[np.int64]
Uint32s = npt.NDArray[np.uint32]


MAXIMUM_PAGE_WRITES = 1 << 26
"""256 GiB of data. Beyond is no recording but an attempt to use up all memory with discards."""


class LogTooLarge(UsageError):
    """A log whose index would not fit into memory."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The index.

    :ivar sectors: where each cell starts, in sectors, ascending.
    :ivar is_page: whether the cell is a whole page; else it is one sector.
    :ivar starts: see above; one longer than there are cells.
    :ivar writes: request numbers.
    """

    sectors: Uint32s | Int64s
    is_page: npt.NDArray[np.bool_]
    starts: Int64s
    writes: Uint32s
    _sectors: memoryview = field(init=False, repr=False)
    _is_page: memoryview = field(init=False, repr=False)
    _starts: memoryview = field(init=False, repr=False)
    _writes: memoryview = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Keep views whose items are plain ints, which single look-ups need."""
        object.__setattr__(self, "_sectors", self.sectors.data)
        object.__setattr__(self, "_is_page", self.is_page.data)
        object.__setattr__(self, "_starts", self.starts.data)
        object.__setattr__(self, "_writes", self.writes.data)

    @classmethod
    def build(cls, requests: Requests, base_pages: Int64s) -> "History":
        """Index all requests. Raises LogTooLarge.

        :param base_pages: ascending numbers of the pages where the base may hold data.
        """
        changing = np.flatnonzero(requests.changes_media)
        first_sector = requests.offset_bytes[changing] // SECTOR_BYTES
        end_sector = first_sector + requests.length_bytes[changing] // SECTOR_BYTES
        has_data = requests.operation[changing] == Operation.WRITE
        pages = _pages_with_data(first_sector, end_sector, has_data, base_pages)
        sectors, is_page = _cells(pages, first_sector, end_sector)
        low = np.searchsorted(sectors, first_sector)
        high = np.searchsorted(sectors, end_sector)
        if int((high - low).sum()) > MAXIMUM_PAGE_WRITES:
            raise LogTooLarge(
                f"a log of more than {MAXIMUM_PAGE_WRITES} page writes cannot be explored"
            )
        cells, owner = _expand(low, high)
        starts = np.zeros(len(sectors) + 1, np.int64)
        np.cumsum(np.bincount(cells, minlength=len(sectors)), out=starts[1:])
        order = np.argsort(cells, kind="stable")
        writes = changing.astype(np.uint32)[owner[order]]
        return cls(sectors, is_page, starts, writes)

    def extent(self, cell: int) -> tuple[int, int]:
        """A cell's first sector and the one after its last."""
        first = self._sectors[cell]
        return first, first + (SECTORS_PER_PAGE if self._is_page[cell] else 1)

    def cells_between(self, first_sector: int, end_sector: int) -> tuple[int, int]:
        """The range of cells that start in a range of sectors."""
        # Not numpy's search: it would first make a copy of all cells, of its own integer type.
        low = bisect_left(self._sectors, first_sector)
        return low, bisect_left(self._sectors, end_sector, low)

    def cells_of(self, requests: Requests, first: int, end: int) -> tuple[list[int], list[int]]:
        """For each request of [first, end), the begin and end of the range of cells it covers."""
        first_sector = requests.offset_bytes[first:end] // SECTOR_BYTES
        end_sector = first_sector + requests.length_bytes[first:end] // SECTOR_BYTES
        low = np.searchsorted(self.sectors, first_sector.astype(self.sectors.dtype))
        high = np.searchsorted(self.sectors, end_sector.astype(self.sectors.dtype))
        return low.tolist(), high.tolist()

    def newest(self, cell: int, submitted: int) -> int:
        """The last request below `submitted` that covers a cell; else FROM_BASE."""
        start = self._starts[cell]
        found = bisect_left(self._writes, submitted, start, self._starts[cell + 1])
        return self._writes[found - 1] if found > start else FROM_BASE

    def older_first(self, cell: int, submitted: int) -> Iterable[int]:
        """The requests below `submitted` that cover a cell, the newest first."""
        start = self._starts[cell]
        found = bisect_left(self._writes, submitted, start, self._starts[cell + 1])
        return (self._writes[index] for index in range(found - 1, start - 1, -1))


def _pages_with_data(
    first_sector: Int64s,
    end_sector: Int64s,
    has_data: npt.NDArray[np.bool_],
    base_pages: Int64s,
) -> Int64s:
    """The pages whose contents some request may have changed, ascending.

    Zeroing what holds no data changes nothing, so a discard of the whole disk costs nothing here.
    """
    first_page = first_sector // SECTORS_PER_PAGE
    end_page = -(-end_sector // SECTORS_PER_PAGE)
    written, _ = _expand(first_page[has_data], end_page[has_data])
    written = np.unique(written)
    if not len(base_pages):
        return written
    depth = np.zeros(len(base_pages) + 1, np.int64)
    np.add.at(depth, np.searchsorted(base_pages, first_page[~has_data]), 1)
    np.add.at(depth, np.searchsorted(base_pages, end_page[~has_data]), -1)
    return np.union1d(written, base_pages[np.cumsum(depth[:-1]) > 0])


def _cells(
    pages: Int64s, first_sector: Int64s, end_sector: Int64s
) -> tuple[Uint32s | Int64s, npt.NDArray[np.bool_]]:
    edges = np.concatenate((first_sector, end_sector))
    edges = edges[edges % SECTORS_PER_PAGE != 0] // SECTORS_PER_PAGE
    is_split = np.isin(pages, edges)
    sector = pages * SECTORS_PER_PAGE
    parts = sector[is_split, None] + np.arange(SECTORS_PER_PAGE)
    sectors = np.concatenate((sector[~is_split], parts.ravel()))
    is_page = np.arange(len(sectors)) < len(sectors) - parts.size
    order = np.argsort(sectors)
    sectors = sectors[order]
    if not len(sectors) or sectors[-1] < 1 << 32:
        return sectors.astype(np.uint32), is_page[order]
    return sectors, is_page[order]


def _expand(low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
    """All integers of the ranges [low, high), and the number of the range that each is from."""
    lengths = high - low
    owner = np.repeat(np.arange(len(low)), lengths)
    before = np.cumsum(lengths) - lengths
    values = np.arange(len(owner)) - np.repeat(before - low, lengths)
    return values, owner

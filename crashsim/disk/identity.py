"""Telling disk images apart without reading them whole.

An image's identity is the sum, modulo 2**128, of a digest for each cell (see `history`), where a
cell of zeroes counts nothing and a digest depends on the cell's place and contents. Sums let a
state's identity follow from that of the log's prefix at its cut by adding the difference of the
cells that it changes. The digests are xxHash's XXH3 with 128 bits: not safe against an adversary
who chooses contents, and none gains anything here.
"""

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import xxhash

from crashsim.disk.history import FROM_BASE, SECTORS_PER_PAGE, Int64s
from crashsim.disk.request import PAGE_BYTES, SECTOR_BYTES, Operation

if TYPE_CHECKING:
    from crashsim.disk.image import ImageIndex, Resolution

_MODULUS = 1 << 128
_DIGEST_BYTES = 16
_ZEROES = bytes(PAGE_BYTES)
_MAXIMUM_CACHED = 1 << 16
_BLOCK_REQUESTS = 4096


class Identities:
    """Digests of an index's states. Every method may be called from any thread."""

    def __init__(self, index: "ImageIndex") -> None:
        """Prepare; nothing is read before the first question."""
        self._index = index
        self._history = index.history
        self._lock = threading.Lock()
        self._cache: dict[tuple[int, int], int] = {}
        # Sixteen bytes for each request and each cell: as Python's integers they were forty.
        self._prefix = bytearray(_DIGEST_BYTES)
        self._current: bytearray | None = None

    def page_digest(self, resolution: "Resolution", number: int) -> int:
        """See `ImageIndex.page_digest`."""
        first = number * SECTORS_PER_PAGE
        low, high = self._history.cells_between(first, first + SECTORS_PER_PAGE)
        return sum(self._digest(resolution, cell) for cell in range(low, high)) % _MODULUS

    def identity(self, resolution: "Resolution") -> int:
        """See `ImageIndex.identity`."""
        result = self._prefix_sum(resolution.submitted)
        newest = self._history.newest
        for cell in self._cells_of(resolution.changed.tolist()):
            kept = newest(cell, resolution.submitted)
            result += self._digest(resolution, cell) - self._source_digest(kept, cell)
        return result % _MODULUS

    def differing_pages(self, one: "Resolution", other: "Resolution") -> Int64s:
        """See `ImageIndex.differing_pages`."""
        early, late = sorted((one.submitted, other.submitted))
        changed = {*range(early, late), *one.changed.tolist(), *other.changed.tolist()}
        sectors = self._history.sectors
        pages = {
            int(sectors[cell]) // SECTORS_PER_PAGE
            for cell in self._cells_of(changed)
            if self._digest(one, cell) != self._digest(other, cell)
        }
        return np.array(sorted(pages), np.int64)

    def _cells_of(self, numbers: Iterable[int]) -> set[int]:
        """The cells that any of these requests covers."""
        cells: set[int] = set()
        for number in numbers:
            cells.update(range(*self._cell_range(number)))
        return cells

    def _cell_range(self, number: int) -> tuple[int, int]:
        requests = self._index.log.requests
        first = int(requests.offset_bytes[number]) // SECTOR_BYTES
        end = first + int(requests.length_bytes[number]) // SECTOR_BYTES
        return self._history.cells_between(first, end)

    def _digest(self, resolution: "Resolution", cell: int) -> int:
        """The digest of what a cell holds in a state."""
        source = self._index.cell_source(resolution, cell)
        if source is not None:
            return self._source_digest(source, cell)
        sources = self._index.sector_sources(resolution, cell)
        return self._hash(cell, self._index.contents(cell, sources))

    def _source_digest(self, source: int, cell: int) -> int:
        """The digest of a cell whose contents are all from one request."""
        digest = self._cache.get((source, cell))
        if digest is None:
            digest = self._hash(cell, self._index.contents(cell, [source]))
            if len(self._cache) >= _MAXIMUM_CACHED:
                self._cache = {}
            self._cache[(source, cell)] = digest
        return digest

    def _hash(self, cell: int, contents: bytes) -> int:
        if contents == _ZEROES[: len(contents)]:
            return 0
        return xxhash.xxh3_128_intdigest(contents, seed=int(self._history.sectors[cell]))

    def _prefix_sum(self, submitted: int) -> int:
        """The identity of the state that keeps every request below `submitted`."""
        offset = submitted * _DIGEST_BYTES
        with self._lock:
            if offset >= len(self._prefix):
                self._extend(submitted)
            return int.from_bytes(self._prefix[offset : offset + _DIGEST_BYTES], "little")

    def _extend(self, submitted: int) -> None:
        """Hash what the next requests wrote, once."""
        if self._current is None:
            self._current = self._base_digests()
        done = len(self._prefix) // _DIGEST_BYTES - 1
        for first in range(done, submitted, _BLOCK_REQUESTS):
            self._extend_block(self._current, first, min(submitted, first + _BLOCK_REQUESTS))

    def _extend_block(self, current: bytearray, first: int, end: int) -> None:
        log = self._index.log
        total = int.from_bytes(self._prefix[-_DIGEST_BYTES:], "little")
        is_write = (log.requests.operation[first:end] == Operation.WRITE).tolist()
        offsets = log.requests.data_offset[first:end].tolist()
        lengths = log.requests.length_bytes[first:end].tolist()
        lows, highs = self._history.cells_of(log.requests, first, end)
        for index in range(end - first):
            data = log.read_data(offsets[index], lengths[index]) if is_write[index] else None
            place = lows[index] * _DIGEST_BYTES
            for digest in self._digests(lows[index], highs[index], data):
                after = place + _DIGEST_BYTES
                total += digest - int.from_bytes(current[place:after], "little")
                current[place:after] = digest.to_bytes(_DIGEST_BYTES, "little")
                place = after
            total %= _MODULUS
            self._prefix += total.to_bytes(_DIGEST_BYTES, "little")

    def _digests(self, low: int, high: int, data: bytes | None) -> Iterable[int]:
        """The digests of the cells [low, high) if `data` covers them; None is all zeroes."""
        if data is None:
            yield from (0 for _ in range(low, high))
            return
        start = 0
        for cell in range(low, high):
            end = start + (PAGE_BYTES if self._history.is_page[cell] else SECTOR_BYTES)
            yield self._hash(cell, data[start:end])
            start = end

    def _base_digests(self) -> bytearray:
        """The digests of all cells before the first request; they are not in any prefix sum."""
        result = bytearray(len(self._history.sectors) * _DIGEST_BYTES)
        if self._index.has_base:
            for cell in range(len(self._history.sectors)):
                digest = self._hash(cell, self._index.contents(cell, [FROM_BASE]))
                place = cell * _DIGEST_BYTES
                result[place : place + _DIGEST_BYTES] = digest.to_bytes(_DIGEST_BYTES, "little")
        return result

"""The crash disk while it serves crash states."""

import threading
from itertools import pairwise

import numpy as np

from crashsim.disk.history import Int64s
from crashsim.disk.image import ImageIndex
from crashsim.disk.request import PAGE_BYTES, SECTOR_BYTES, Operation, Request
from crashsim.disk.scratch import ScratchFile
from crashsim.disk.state import CrashState

_MAXIMUM_RANGES = 1 << 16
_COMPARED_SECTORS = 2048

Range = tuple[int, int]


class CrashStateDisk:
    """A Disk that shows one crash state at a time; what the guest writes is thrown away after.

    Its methods may be called from another thread than the NBD server's.
    """

    def __init__(self, index: ImageIndex) -> None:
        """Show the empty beginning of a log, until `show`."""
        self.size_bytes = index.size_bytes
        self._index = index
        self._lock = threading.Lock()
        self._state = CrashState(0)
        self._overlay = ScratchFile(index.size_bytes)
        # One byte a sector; the operating system gives memory to the touched parts only.
        self._written = np.zeros(-(-index.size_bytes // SECTOR_BYTES), np.bool_)
        self._written_ranges: list[Range] = []
        self._read_ranges: list[Range] = []

    def show(self, state: CrashState) -> None:
        """Show another state from now on, and forget all that was written and read.

        The guest must not have the disk mounted, and not remember what it held. Costs what the
        guest wrote since the last time.
        """
        with self._lock:
            if self._written_ranges:
                for first, end in self._written_ranges:
                    self._written[first:end] = False
                self._written_ranges = []
                self._overlay.clear()
            self._read_ranges = []
            self._state = state

    def pages_read(self) -> Int64s:
        """The pages of which original contents were read since `show`, ascending.

        What the guest itself had written before it read it does not count. Pages that no request
        of the log gave data to are left out: they hold the same in every state.
        """
        with self._lock:
            ranges = self._merged_reads()
        pages = [self._index.pages_between(first, end) for first, end in ranges]
        return np.unique(np.concatenate(pages)) if pages else np.zeros(0, np.int64)

    def pages_changed(self) -> int:
        """How many pages hold something else than in the state, by what was written since `show`.

        Counted in pieces of a page from where each run of written sectors starts.
        """
        with self._lock:
            self._written_ranges = _merge(self._written_ranges)
            return sum(self._changed_in(first, end) for first, end in self._written_ranges)

    def arrived(self, request: Request) -> int:
        """Nothing to note."""
        return 0

    def perform(self, request: Request) -> bytes:
        """Read the state with the guest's own writes over it, or take such a write."""
        if request.operation is Operation.FLUSH:
            return b""
        first = request.offset_bytes // SECTOR_BYTES
        end = first + request.length_bytes // SECTOR_BYTES
        with self._lock:
            if request.operation is Operation.READ:
                return self._read(first, end)
            if request.operation is Operation.WRITE:
                self._overlay.write(request.offset_bytes, request.data)
            else:
                self._overlay.zero(request.offset_bytes, request.length_bytes)
            self._written[first:end] = True
            self._written_ranges.append((first, end))
            if len(self._written_ranges) > _MAXIMUM_RANGES:
                self._written_ranges = _merge(self._written_ranges)
        return b""

    def replied(self, ticket: int, error: int) -> None:
        """Nothing to note."""

    def close(self) -> None:
        """Give back the overlay's room."""
        self._overlay.close()

    def _read(self, first: int, end: int) -> bytes:
        written = self._written[first:end]
        if not self._written_ranges or not written.any():
            return self._original(first, end)
        edges = np.flatnonzero(written[1:] != written[:-1]) + 1 + first
        bounds = [first, *edges.tolist(), end]
        return b"".join(
            self._overlay.read(start * SECTOR_BYTES, (stop - start) * SECTOR_BYTES)
            if self._written[start]
            else self._original(start, stop)
            for start, stop in pairwise(bounds)
        )

    def _original(self, first: int, end: int) -> bytes:
        self._read_ranges.append((first, end))
        if len(self._read_ranges) > _MAXIMUM_RANGES:
            self._merged_reads()
        return self._index.read(self._state, first * SECTOR_BYTES, (end - first) * SECTOR_BYTES)

    def _changed_in(self, first: int, end: int) -> int:
        changed = 0
        for start in range(first, end, _COMPARED_SECTORS):
            stop = min(start + _COMPARED_SECTORS, end)
            place, length = start * SECTOR_BYTES, (stop - start) * SECTOR_BYTES
            new = self._overlay.read(place, length)
            old = self._index.read(self._state, place, length)
            if new != old:
                changed += sum(
                    new[at : at + PAGE_BYTES] != old[at : at + PAGE_BYTES]
                    for at in range(0, length, PAGE_BYTES)
                )
        return changed

    def _merged_reads(self) -> list[Range]:
        self._read_ranges = _merge(self._read_ranges)
        return self._read_ranges


def _merge(ranges: list[Range]) -> list[Range]:
    """The same sectors in ranges that neither overlap nor touch."""
    merged: list[Range] = []
    for first, end in sorted(ranges):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((first, end))
    return merged

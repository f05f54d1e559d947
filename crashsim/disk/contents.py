"""What a disk that is being recorded holds now: a map from its sectors into the log's payloads.

The payload is written once, to the log, and read back from there.
"""

from itertools import pairwise

import numpy as np

from crashsim.disk.base_image import BaseImage
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.request import SECTOR_BYTES

_FROM_BASE = 0
_ZERO = 1
_FIRST_PLACE = 3
"""More than one above `_ZERO`: a run of zeroes must not seem to go on as a run of data."""
_ZEROING_SECTORS = 1 << 20


class Contents:
    """Four bytes for each sector, to which the operating system gives memory once they are used."""

    def __init__(self, writer: LogWriter, base: BaseImage | None) -> None:
        """All of the disk is as the base is; zeroes without one."""
        self._writer = writer
        self._base = base
        self._places = np.zeros(writer.size_bytes // SECTOR_BYTES, np.uint32)

    def set(self, first_sector: int, end_sector: int, data_offset: int) -> None:
        """A range of sectors now holds the payload that starts at `data_offset`."""
        place = data_offset // SECTOR_BYTES + _FIRST_PLACE
        places = np.arange(place, place + end_sector - first_sector, dtype=np.uint32)
        self._places[first_sector:end_sector] = places

    def zero(self, first_sector: int, end_sector: int) -> None:
        """A range of sectors now holds zeroes."""
        if self._base is not None:
            self._places[first_sector:end_sector] = _ZERO
            return
        # Only what is not zero yet: a discard of the whole disk must not cost the whole map.
        for first in range(first_sector, end_sector, _ZEROING_SECTORS):
            part = self._places[first : min(end_sector, first + _ZEROING_SECTORS)]
            if part.any():
                part[:] = _FROM_BASE

    def read(self, first_sector: int, end_sector: int) -> bytes:
        """What a range of sectors holds."""
        places = self._places[first_sector:end_sector]
        result = bytearray(len(places) * SECTOR_BYTES)
        if self._base is None and not places.any():
            return bytes(result)
        view = memoryview(result)
        # Runs: payloads that are one after the other in the log, or sectors of one other kind.
        step = places[1:] >= _FIRST_PLACE
        breaks = np.flatnonzero(places[1:] != places[:-1] + step) + 1
        bounds = [0, *breaks.tolist(), len(places)]
        for start, end in pairwise(bounds):
            place = int(places[start])
            part = view[start * SECTOR_BYTES : end * SECTOR_BYTES]
            if place >= _FIRST_PLACE:
                self._writer.read_data_into((place - _FIRST_PLACE) * SECTOR_BYTES, part)
            elif place == _FROM_BASE and self._base is not None:
                self._base.read_into((first_sector + start) * SECTOR_BYTES, part)
        return bytes(result)

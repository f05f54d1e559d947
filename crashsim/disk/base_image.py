"""The image that a recording started from, where that was not a disk of zeroes."""

import errno
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import numpy.typing as npt

from crashsim.disk.request import PAGE_BYTES
from crashsim.errors import InfrastructureError, UsageError

_COPY_BYTES = 1 << 20


class BaseUnreadable(UsageError):
    """The base image of a recording is missing or too large."""


class BaseReadFailed(InfrastructureError):
    """The host failed to read a base image that it could open."""


class BaseImage:
    """An image file, opened for reading. Beyond its end the disk holds zeroes."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        """Open it for a disk of `size_bytes`. Raises BaseUnreadable."""
        self._path = path
        try:
            self._file = path.open("rb")
        except OSError as error:
            raise BaseUnreadable(f"base image {path}: {error.strerror}") from error
        self._size = os.fstat(self._file.fileno()).st_size
        if self._size > size_bytes:
            raise BaseUnreadable(f"base image {path} is larger than the disk ({size_bytes} bytes)")

    def pages(self) -> npt.NDArray[np.int64]:
        """The pages that may hold other bytes than zeroes, ascending: no hole of the file."""
        parts = [np.zeros(0, np.int64)]
        for start, end in self.extents():
            parts.append(np.arange(start // PAGE_BYTES, -(-end // PAGE_BYTES)))
        return np.unique(np.concatenate(parts))

    def read_into(self, offset_bytes: int, buffer: memoryview) -> None:
        """Read; what is beyond the end of the image stays as it is. Raises BaseReadFailed."""
        done = 0
        while done < len(buffer):
            try:
                count = os.preadv(self._file.fileno(), [buffer[done:]], offset_bytes + done)
            except OSError as error:
                # Not the guest's own disk's error: it must never get there as one.
                raise BaseReadFailed(f"{self._path}: cannot be read: {error.strerror}") from error
            if not count:
                return
            done += count

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def extents(self) -> Iterator[tuple[int, int]]:
        """First byte and the one after the last of each part that is no hole, ascending."""
        offset = 0
        while (extent := self._next_extent(offset)) is not None:
            yield extent
            offset = extent[1]

    def _next_extent(self, offset: int) -> tuple[int, int] | None:
        if offset >= self._size:
            return None
        try:
            start = os.lseek(self._file.fileno(), offset, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # lseek(2): only a hole is left.
                return None
            raise
        return start, os.lseek(self._file.fileno(), start, os.SEEK_HOLE)


def copy_image(source: Path, target: Path) -> None:
    """Copy an image into the new file `target`, its holes as holes.

    Raises BaseUnreadable, BaseReadFailed, and OSError where `target` cannot be written.
    """
    size = source.stat().st_size
    with closing(BaseImage(source, size)) as image, target.open("xb") as output:
        for start, end in image.extents():
            for offset in range(start, end, _COPY_BYTES):
                piece = bytearray(min(_COPY_BYTES, end - offset))
                image.read_into(offset, memoryview(piece))
                os.pwrite(output.fileno(), piece, offset)
        output.truncate(size)

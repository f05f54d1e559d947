"""A sparse file without a name: memory as large as a disk that vanishes with the process."""

import ctypes
import os
import tempfile
from pathlib import Path

from crashsim.errors import InfrastructureError

_FALLOC_FL_KEEP_SIZE = 0x01
_FALLOC_FL_PUNCH_HOLE = 0x02
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class ScratchFailed(InfrastructureError):
    """The host's file system could not hold a disk's working copy: most likely it is full."""


class ScratchFile:
    """As many zero bytes as asked for, of which only those written take up room.

    Every method raises ScratchFailed when the host fails: never an OSError, which a disk would
    hand to the guest as if the guest's own disk had failed.
    """

    def __init__(self, size_bytes: int, directory: Path | None = None) -> None:
        """Make one in `directory`, or where temporary files go."""
        self.size_bytes = size_bytes
        self._directory = directory
        try:
            # The file has no name and lives until close().
            self._file = tempfile.TemporaryFile(dir=directory, buffering=0)  # noqa: SIM115
            os.ftruncate(self._file.fileno(), size_bytes)
        except OSError as error:
            raise self._failed(error) from error

    def read(self, offset_bytes: int, length_bytes: int) -> bytes:
        """What is there; zeroes where nothing was written."""
        try:
            data = os.pread(self._file.fileno(), length_bytes, offset_bytes)
        except OSError as error:
            raise self._failed(error) from error
        if len(data) != length_bytes:
            raise ScratchFailed(f"a working file ended at {offset_bytes + len(data)} bytes")
        return data

    def write(self, offset_bytes: int, data: bytes) -> None:
        """Write all of `data`."""
        try:
            written = os.pwrite(self._file.fileno(), data, offset_bytes)
            while written < len(data):
                rest = memoryview(data)[written:]
                written += os.pwrite(self._file.fileno(), rest, offset_bytes + written)
        except OSError as error:
            raise self._failed(error) from error

    def zero(self, offset_bytes: int, length_bytes: int) -> None:
        """Make a range read as zeroes again, and give back its room.

        Punching a hole needs a file system that can (ext4, xfs, btrfs, tmpfs: fallocate(2)).
        """
        mode = _FALLOC_FL_PUNCH_HOLE | _FALLOC_FL_KEEP_SIZE
        if _libc.fallocate(self._file.fileno(), mode, offset_bytes, length_bytes):
            error = OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
            raise self._failed(error)

    def clear(self) -> None:
        """Make all of it read as zeroes."""
        try:
            os.ftruncate(self._file.fileno(), 0)
            os.ftruncate(self._file.fileno(), self.size_bytes)
        except OSError as error:
            raise self._failed(error) from error

    def close(self) -> None:
        """Give back its room."""
        self._file.close()

    def _failed(self, error: OSError) -> ScratchFailed:
        where = self._directory or tempfile.gettempdir()
        return ScratchFailed(
            f"the working copy of a disk in {where} failed ({error.strerror}): "
            "free some space there or set TMPDIR to a directory that has more"
        )

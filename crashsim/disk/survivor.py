"""What a power cut left of a disk, as an image file that another recording can begin with."""

import os
from pathlib import Path

import numpy as np

from crashsim.disk.image import ImageIndex
from crashsim.disk.log_writer import DISK_FULL_ERRNOS, RecordingDiskFull, RecordingFailed
from crashsim.disk.request import PAGE_BYTES
from crashsim.disk.state import CrashState

_RUN_PAGES_MAX = 256


def write_image(images: ImageIndex, state: CrashState, target: Path) -> int:
    """Write the disk that `state` stands for into the new file `target`.

    Pages of zeroes are holes, and the file ends with the last page that is none: a `BaseImage`
    reads zeroes beyond. Returns how many bytes are no holes. Raises RecordingDiskFull,
    RecordingFailed, and what reading the log raises.
    """
    written = 0
    try:
        with target.open("xb") as output:
            for first, count in _runs(images.pages()):
                offset = first * PAGE_BYTES
                length = min(count * PAGE_BYTES, images.size_bytes - offset)
                content = images.read(state, offset, length)
                for start in range(0, length, PAGE_BYTES):
                    page = content[start : start + PAGE_BYTES]
                    if page.strip(b"\0"):
                        os.pwrite(output.fileno(), page, offset + start)
                        written += len(page)
    except OSError as error:
        kind = RecordingDiskFull if error.errno in DISK_FULL_ERRNOS else RecordingFailed
        raise kind(f"cannot write {target}: {error.strerror}: make room") from error
    return written


def _runs(pages: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[tuple[int, int]]:
    """Neighbouring pages together: (first page, how many)."""
    runs: list[tuple[int, int]] = []
    for page in pages.tolist():
        if runs and page == sum(runs[-1]) and runs[-1][1] < _RUN_PAGES_MAX:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((page, 1))
    return runs

"""What the kernel's log says of device-mapper: ioctl(2) itself only ever gives an errno."""

import errno
import os

RECORD_BYTES_MAX = 8192
LINES_MAX = 5
_MARK = "device-mapper:"


class KernelLog:
    """Reads /dev/kmsg, if this process may; else it has nothing to tell."""

    def __init__(self) -> None:
        """Start at the end of what is there."""
        try:
            self._descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            self._descriptor = -1  # not there, or not for us: errors are then shorter

    def forward(self) -> None:
        """Skip what has been said up to now."""
        if self._descriptor >= 0:
            os.lseek(self._descriptor, 0, os.SEEK_END)

    def read(self) -> str:
        """What device-mapper has said since, in one line."""
        lines: list[str] = []
        while self._descriptor >= 0 and len(lines) < LINES_MAX:
            try:
                record = os.read(self._descriptor, RECORD_BYTES_MAX)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EPIPE:
                    raise
                continue  # records were overwritten before they were read: go on with the next
            # "priority,number,microseconds,flags;text": Documentation/ABI/testing/dev-kmsg
            text = record.decode("utf-8", "replace").partition(";")[2].split("\n")[0]
            if text.startswith(_MARK):
                lines.append(text)
        return "the kernel says: " + "; ".join(lines) if lines else ""

    def close(self) -> None:
        """Close it. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

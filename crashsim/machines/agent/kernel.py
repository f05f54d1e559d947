"""What the kernel says: its log, whether it is tainted, and the clock."""

import errno
import os
import time

KMSG_RECORD_BYTES = 8192
"""More than the longest record of /dev/kmsg (Documentation/ABI/testing/dev-kmsg)."""

LOG_BYTES_MAX = 1 << 16

TAINT_BITS = sum(1 << bit for bit in (4, 5, 7, 9, 14))
"""Machine check, bad page, oops, warning, soft lockup (admin-guide/tainted-kernels)."""


class KernelLog:
    """Reads /dev/kmsg from where it was last told to."""

    def __init__(self) -> None:
        """Start at the end of what is there."""
        self._descriptor = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.forward()

    def forward(self) -> None:
        """Skip what has been said up to now."""
        os.lseek(self._descriptor, 0, os.SEEK_END)

    def read(self) -> str:
        """The messages since, one a line, without their times: these differ between equal runs."""
        lines = []
        size = 0
        while size < LOG_BYTES_MAX:
            try:
                record = os.read(self._descriptor, KMSG_RECORD_BYTES)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EPIPE:
                    raise
                lines.append("(messages were lost)")  # overwritten before they were read
                continue
            line = _message(record)
            size += len(line) + 1
            lines.append(line)
        return "\n".join(lines)


def _message(record: bytes) -> str:
    """The text of a record `priority,number,time,flags;text`, without the key=value lines below."""
    text = record.partition(b";")[2].partition(b"\n")[0]
    return text.decode("utf-8", "backslashreplace")


def is_tainted() -> bool:
    """Whether the kernel has oopsed, warned or found its own memory damaged since it booted."""
    with open("/proc/sys/kernel/tainted", "rb") as file:
        return bool(int(file.read()) & TAINT_BITS)


def set_clock(seconds: float) -> None:
    """Set the time of day, in seconds since 1970."""
    time.clock_settime(time.CLOCK_REALTIME, seconds)

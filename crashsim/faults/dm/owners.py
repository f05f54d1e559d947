"""Whose device it is: the uuids of our devices name the process that made them.

A process is known by its pid namespace, its id there, and the time at which it started.
"""

import errno
import os
from typing import NamedTuple

_PREFIX = "CRASHSIM"
_UUID_NUMBERS = 5
SIGKILL_BIT = 1 << 8  # proc_pid_status(5): SigPnd is a mask, signal 1 its lowest bit
PF_EXITING = 0x4  # linux/sched.h; proc_pid_stat(5) has the flags as its ninth field


class Owner(NamedTuple):
    """A process that makes devices."""

    namespace: int
    process: int
    start_ticks: int

    @property
    def prefix(self) -> str:
        """How the uuids of its devices begin."""
        return f"{_PREFIX}-{self.namespace}-{self.process}-{self.start_ticks}-"

    @property
    def lives(self) -> bool:
        """Whether the process is still there, in this namespace."""
        stat = _read(f"/proc/{self.process}/stat")
        return bool(stat) and _start_ticks(stat) == self.start_ticks and _state(stat) not in "ZX"


def this_process() -> Owner:
    """We ourselves."""
    stat = _read("/proc/self/stat")
    return Owner(namespace(), os.getpid(), _start_ticks(stat))


def namespace() -> int:
    """The pid namespace's number."""
    return os.stat("/proc/self/ns/pid").st_ino


def owner_of(uuid: str) -> Owner | None:
    """Who made the device of this uuid; None for devices that are not ours."""
    head, colon, _ = uuid.partition(":")
    prefix, *numbers = head.split("-")
    if prefix != _PREFIX or not colon or len(numbers) != _UUID_NUMBERS:
        return None
    if not all(number.isdecimal() for number in numbers):
        return None
    namespace_number, process, start_ticks = (int(number) for number in numbers[:3])
    return Owner(namespace_number, process, start_ticks)


def is_dying(process: int) -> bool:
    """Whether a process has been killed or is ending, though it may be stuck on its way out.

    A thread that waits for I/O on a suspended device takes no signal, and a process that closes
    such a device does not end: to wait for their end would be to wait forever.
    """
    try:
        threads = os.listdir(f"/proc/{process}/task")
    except FileNotFoundError:
        return True
    for thread in threads:
        stat = _read(f"/proc/{process}/task/{thread}/stat")
        status = _read(f"/proc/{process}/task/{thread}/status")
        if not stat or not status:
            continue  # a thread that ended meanwhile says nothing of the others
        pending = next(line for line in status.splitlines() if line.startswith("SigPnd:"))
        if int(pending.split()[1], 16) & SIGKILL_BIT:
            return True
        leader = int(thread) == process
        if leader and (_state(stat) in "ZX" or int(_fields(stat)[6]) & PF_EXITING):
            return True
    return False


def _read(path: str) -> str:
    """A file of /proc; empty once the process has gone."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    except OSError as error:
        if error.errno != errno.ESRCH:
            raise
        return ""


def _fields(stat: str) -> list[str]:
    """From the third on: the second, in parentheses, may hold anything."""
    return stat.rpartition(")")[2].split()


def _state(stat: str) -> str:
    return _fields(stat)[0]


def _start_ticks(stat: str) -> int:
    return int(_fields(stat)[19])

"""Kills a process that uses device-mapper after each of its commands, in the guest.

Prints one JSON object: how many commands there are, and what was left after which.
"""

import ctypes
import json
import os
import signal
from collections.abc import Callable

from crashsim.faults.dm.abi import Header
from crashsim.faults.dm.control import Control
from crashsim.faults.dm.flakey import Flakey
from crashsim.faults.dm.session import DeviceMapper
from crashsim.faults.dm.targets import Error, Linear
from crashsim.faults.dm.uevents import Uevents
from tests.support.dm_guest import DISK, MIB, opened, part, table

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
DIRTY = b"dirty..." * 1024  # whole pages: to change a part of one is to read it first
HANG_SECONDS = 50
REMOVAL_SECONDS = 20


def use() -> None:
    """A stack of two devices with dirty pages above, suspended below, reconfigured, removed."""
    with (
        DeviceMapper() as mapper,
        part(mapper, "lower", DISK, 0) as lower,
        mapper.device("upper", table(Flakey(lower.path, 3600, 0))) as upper,
        opened(upper.path, os.O_RDWR) as descriptor,
    ):
        # Pages that nobody has written out yet: the last close of the node must do that.
        os.pwrite(descriptor, DIRTY, MIB)
        with lower.suspended():
            upper.load(table(Flakey(lower.path, 0, 1, drop_writes=True)))
            lower.load(table(Linear(DISK, 4096)))
        os.pwrite(descriptor, DIRTY, 2 * MIB)
        with upper.suspended():
            os.pwrite(descriptor, DIRTY, 3 * MIB)
        upper.reconfigure(table(Error()))


def die_after(number: int) -> None:
    """From now on, be killed after the command of that number (from 0 on)."""
    perform = Control.perform
    numbers = iter(range(number + 1))

    def perform_and_die(
        self: Control, command: int, header: Header, payload: bytes = b""
    ) -> tuple[Header, bytes]:
        answer = perform(self, command, header, payload)
        if next(numbers) == number:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    Control.perform = perform_and_die  # type: ignore[method-assign]


def in_a_child(action: Callable[[], None]) -> int:
    """How the child ended: its exit status, or minus the signal. Waits for all descendants."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            action()
            status = 0
        finally:
            os._exit(status)
    outcome = None
    signal.alarm(HANG_SECONDS)
    while True:
        try:
            process, status = os.wait()
        except ChildProcessError:
            break
        if process == child:
            outcome = os.waitstatus_to_exitcode(status)
    signal.alarm(0)
    assert outcome is not None
    return outcome


def devices_left() -> list[str]:
    """What is there once the kernel has had time for what it was told to remove later."""
    with Control() as own, Uevents() as uevents:
        uevents.wait_until(lambda: not own.names(), REMOVAL_SECONDS)
        return own.names()


def main() -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    left: dict[int, list[str]] = {}
    number = 0

    def use_and_die() -> None:
        die_after(number)
        use()

    while not left and (outcome := in_a_child(use_and_die)) == -signal.SIGKILL:
        remaining = devices_left()
        if remaining:
            left[number] = remaining
        number += 1
    print(json.dumps({"commands": number, "outcome": outcome, "left": left}))


if __name__ == "__main__":
    main()

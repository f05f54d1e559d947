"""Kills a process that uses device-mapper at each of its steps, in the guest.

Prints one JSON object: how many steps there are, and what was left after which.
"""

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable

from dm_guest import DISK, MIB, opened, part, table

from crashsim.faults.dm import control
from crashsim.faults.dm.control import Control
from crashsim.faults.dm.flakey import Flakey
from crashsim.faults.dm.session import DeviceMapper
from crashsim.faults.dm.targets import Error, Linear
from crashsim.faults.dm.uevents import Uevents

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
HANG_SECONDS = 60
REMOVAL_SECONDS = 20


def use() -> None:
    """A stack of two devices with dirty pages above, suspended below, reconfigured, removed."""
    with (
        DeviceMapper() as mapper,
        part(mapper, "lower", DISK, 0) as lower,
        mapper.device("upper", table(Flakey(lower.path, 3600, 0))) as upper,
    ):
        # Pages that nobody has written out yet: the last close of the node must do that.
        with opened(upper.path, os.O_RDWR) as descriptor:
            os.pwrite(descriptor, b"dirty" * 1000, MIB)
            with lower.suspended():
                upper.load(table(Flakey(lower.path, 0, 1, drop_writes=True)))
                lower.load(table(Linear(DISK, 4096)))
            os.pwrite(descriptor, b"dirty" * 1000, 2 * MIB)
            with upper.suspended():
                os.pwrite(descriptor, b"dirty" * 1000, 3 * MIB)
            upper.reconfigure(table(Error()))


def die_at(step: int) -> None:
    """From now on, be killed at the step of that number: before or after some command."""
    perform = Control.perform
    steps = iter(range(step + 1))

    def perform_or_die(self: Control, *arguments: object) -> object:
        tick()
        answer = perform(self, *arguments)  # type: ignore[arg-type]
        tick()
        return answer

    def tick() -> None:
        if next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)

    control.Control.perform = perform_or_die  # type: ignore[method-assign, assignment]


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
    step = 0
    began = time.monotonic()
    stride = int(sys.argv[1])

    def use_and_die() -> None:
        die_at(step)
        use()

    while (outcome := in_a_child(use_and_die)) == -signal.SIGKILL:
        remaining = devices_left()
        if remaining:
            left[step] = remaining
            break
        step += stride
    print(json.dumps({"steps": step, "outcome": outcome, "left": left}))
    print(f"{time.monotonic() - began:.1f} s", file=sys.stderr)


if __name__ == "__main__":
    main()

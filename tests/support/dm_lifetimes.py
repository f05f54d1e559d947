"""How devices come and go, whatever happens meanwhile; in the guest.

Prints one JSON object: case -> "" or what went wrong.
"""

import contextlib
import json
import os
import signal
import subprocess
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from crashsim.errors import CrashsimError
from crashsim.faults.dm import device as device_module
from crashsim.faults.dm import sweeping
from crashsim.faults.dm.control import Control
from crashsim.faults.dm.errors import CommandFailed, DeviceInUse, EventTimeout, GuardianGone
from crashsim.faults.dm.session import DeviceMapper
from crashsim.faults.dm.tables import whole
from crashsim.faults.dm.targets import Delay, Latency, Linear, Zero
from tests.support.dm_guest import (
    DISK,
    OTHER_DISK,
    SIZE_BYTES,
    part,
    pattern,
    read,
    table,
    write,
)
from tests.support.dm_killing import devices_left, in_a_child

ROUNDS = 200


@contextlib.contextmanager
def raises(kind: type[BaseException]) -> Iterator[list[BaseException]]:
    """pytest.raises, which this guest has not; gives a list that will hold the error."""
    seen: list[BaseException] = []
    try:
        yield seen
    except kind as error:
        seen.append(error)
    assert seen, f"no {kind.__name__}"


def many_rounds_without_busy() -> None:
    """Not one command may fail, though each device is used and nothing waits but for events."""
    with DeviceMapper() as mapper, Control() as control:
        for number in range(ROUNDS):
            with mapper.device("round", table(Linear(DISK))) as device:
                write(device.path, pattern(number))
            assert control.names() == []
        assert read(DISK) == pattern(ROUNDS - 1)


def an_error_while_suspended_with_a_request_under_way() -> None:
    """The request has to end, or its thread keeps the upper device open for good."""
    device_module.REMOVAL_SECONDS = 1.0
    with (
        raises(ZeroDivisionError),
        DeviceMapper() as mapper,
        part(mapper, "lower", DISK, 0) as lower,
        part(mapper, "upper", lower.path, 0) as upper,
    ):
        lower.suspend()
        thread = threading.Thread(target=write, args=(upper.path, pattern(1)))
        thread.start()
        wait_until_stuck(os.getpid(), thread.native_id or 0)
        raise ZeroDivisionError
    thread.join(60)
    assert not thread.is_alive()
    assert devices_left() == []
    device_module.REMOVAL_SECONDS = 10.0


def wait_until_stuck(process: int, thread: int) -> None:
    while "D (disk" not in Path(f"/proc/{process}/task/{thread}/status").read_text():
        os.sched_yield()


def an_error_in_a_suspension_brings_the_old_table_back() -> None:
    with DeviceMapper() as mapper, mapper.device("one", table(Linear(DISK))) as device:
        with raises(ZeroDivisionError), device.suspended():
            device.load(table(Zero()))
            raise ZeroDivisionError
        assert [row.kind for row in device.table()] == ["linear"]
        assert not device.info.has_inactive_table
        write(device.path, pattern(1))


def a_name_that_is_taken() -> None:
    with DeviceMapper() as mapper, mapper.device("one", table(Linear(DISK))) as device:
        with raises(CommandFailed) as failed, mapper.device("one", table(Zero())):
            pass
        assert isinstance(failed[0], CommandFailed)
        assert failed[0].errno_name == "EBUSY"
        write(device.path, pattern(1))


def a_refused_table_is_explained_and_the_old_one_stays() -> None:
    with DeviceMapper() as mapper, mapper.device("one", table(Linear(DISK))) as device:
        with raises(CommandFailed) as failed:
            device.reconfigure(table(Linear(DISK, 1 << 40)))
        assert "the kernel says: device-mapper: table: 253:0: vdb too small" in str(failed[0])
        assert not device.info.has_inactive_table
        write(device.path, pattern(1))


def a_table_of_another_size_resizes_the_device() -> None:
    with DeviceMapper() as mapper, mapper.device("one", table(Linear(DISK))) as device:
        device.reconfigure(whole(SIZE_BYTES // 2, Linear(DISK)))
        assert device.table()[0].length_sectors == SIZE_BYTES // 1024


def a_mounted_filesystem_keeps_its_device_until_it_is_unmounted() -> None:
    device_module.REMOVAL_SECONDS = 0.2
    target = "/run/dm-mounted"
    os.makedirs(target, exist_ok=True)
    with DeviceMapper() as mapper:
        with (
            raises(DeviceInUse) as refused,
            mapper.device("mounted", table(Linear(DISK))) as device,
        ):
            subprocess.run(["mkfs.ext4", "-q", "-F", device.path], check=True)
            subprocess.run(["mount", device.path, target], check=True)
        assert f"mounted at {target}" in str(refused[0])
        subprocess.run(["touch", f"{target}/file"], check=True)
        subprocess.run(["umount", target], check=True)
        assert devices_left() == []
    device_module.REMOVAL_SECONDS = 10.0


def kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)


def leave_devices_without_a_guardian() -> None:
    with (
        DeviceMapper() as mapper,
        part(mapper, "lower", DISK, 0) as lower,
        part(mapper, "upper", lower.path, 0),
    ):
        kill(mapper._guardian._process)
        lower._control.suspend(lower._uuid, flush=True, freeze=False)
        kill(os.getpid())


def what_a_killed_guardian_left_goes_with_the_next_session() -> None:
    assert in_a_child(leave_devices_without_a_guardian) == -signal.SIGKILL
    with Control() as control:
        assert sorted(control.names()) == ["lower", "upper"]
    with DeviceMapper():
        assert devices_left() == []


def what_another_process_uses_is_left_alone() -> None:
    def look() -> None:
        with DeviceMapper(), Control() as control:
            assert sweeping.sweep_orphans(control) == 0

    with DeviceMapper() as mapper, mapper.device("one", table(Linear(DISK))) as device:
        # A child of ours only in that it waits for itself: its devices would be its own.
        child = os.fork()
        if child == 0:
            status = 1
            try:
                look()
                status = 0
            finally:
                os._exit(status)
        assert os.waitpid(child, 0)[1] == 0
        write(device.path, pattern(1))


def nothing_is_suspended_without_a_guardian() -> None:
    with DeviceMapper() as mapper, mapper.device("one", table(Linear(DISK))) as device:
        kill(mapper._guardian._process)
        os.waitid(os.P_PID, mapper._guardian._process, os.WEXITED | os.WNOWAIT)
        with raises(GuardianGone):
            device.suspend()
        write(device.path, pattern(1))
    assert devices_left() == []


def no_event_is_no_endless_wait() -> None:
    quick = Delay(Latency(OTHER_DISK, 0, 0))
    with (
        DeviceMapper() as mapper,
        mapper.device("one", table(quick)) as device,
        raises(EventTimeout),
    ):
        device.wait_for_event(device.info.event_number, 0.1)


def a_killed_process_with_a_request_on_a_suspended_device() -> None:
    """It cannot die before the device is resumed, and nobody but the guardian can do that."""

    def hang() -> None:
        with (
            DeviceMapper() as mapper,
            part(mapper, "lower", DISK, 0) as lower,
            lower.suspended(),
        ):
            if os.fork() == 0:
                parent = os.getppid()
                wait_until_stuck(parent, parent)
                kill(parent)
                os._exit(0)
            read(lower.path)  # O_DIRECT: a wait that no signal ends

    assert in_a_child(hang) == -signal.SIGKILL
    assert devices_left() == []


CASES: list[Callable[[], None]] = [
    many_rounds_without_busy,
    an_error_while_suspended_with_a_request_under_way,
    an_error_in_a_suspension_brings_the_old_table_back,
    a_name_that_is_taken,
    a_refused_table_is_explained_and_the_old_one_stays,
    a_table_of_another_size_resizes_the_device,
    a_mounted_filesystem_keeps_its_device_until_it_is_unmounted,
    what_a_killed_guardian_left_goes_with_the_next_session,
    what_another_process_uses_is_left_alone,
    nothing_is_suspended_without_a_guardian,
    no_event_is_no_endless_wait,
    a_killed_process_with_a_request_on_a_suspended_device,
]


def main() -> None:
    problems = {}
    for case in CASES:
        try:
            case()
            problems[case.__name__] = ""
        except (AssertionError, CrashsimError, OSError):
            problems[case.__name__] = traceback.format_exc()
    print(json.dumps(problems))


if __name__ == "__main__":
    main()

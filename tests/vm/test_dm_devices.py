"""Device-mapper from Python, where it runs: in a guest, whose disks are ours."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crashsim.disk.recording_disk import MemoryDisk
from crashsim.faults.dm.staging import guest_files
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.protocol import CommandResult, Guest
from crashsim.machines.qemu import QemuMachine
from crashsim.workloads.staging import put_files

pytestmark = pytest.mark.vm

ROOT = Path(__file__).parents[2]
PLACE = "/opt/crashsim-dm"
SECONDS = 250
NOT_IN_DEBIAN = ["dust"]


def put_package(guest: Guest) -> None:
    scripts = {
        path.relative_to(ROOT).as_posix(): path.read_bytes()
        for path in (ROOT / "tests/support").glob("dm_*.py")
    }
    put_files(guest, PLACE, guest_files() | scripts)


@pytest.fixture(scope="module")
def guest(machine: QemuMachine) -> Iterator[Guest]:
    """With the package in it, and two disks."""
    disks = [MemoryDisk(CRASH_DISK_BYTES) for _ in range(2)]
    with machine.start() as guest:
        for slot, disk in enumerate(disks):
            guest.attach(slot, disk)
        put_package(guest)
        yield guest
    for disk in disks:
        disk.close()


def python(guest: Guest, *arguments: str, before: tuple[str, ...] = ()) -> CommandResult:
    command = [*before, "python3", *arguments]
    return guest.run(command, env={"PYTHONPATH": PLACE}, timeout_seconds=SECONDS)


def outcome(guest: Guest, script: str) -> Any:
    done = python(guest, "-m", f"tests.support.{script}")
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_every_target_is_used_and_reconfigured_under_load(guest: Guest) -> None:
    problems = outcome(guest, "dm_targets")

    missing = [name for name, problem in problems.items() if problem.startswith("missing: ")]
    assert missing == NOT_IN_DEBIAN
    assert problems["dust"] == (
        "missing: this kernel has no device-mapper target dust: load its module, or take a kernel "
        "that has it"
    )
    assert {name: text for name, text in problems.items() if text and name not in missing} == {}


def test_killed_after_any_command_no_device_stays(guest: Guest) -> None:
    told = outcome(guest, "dm_killing")

    assert told["left"] == {}
    assert told["outcome"] == 0  # the last one was not killed: it has come to its end
    assert told["commands"] > 20


def test_devices_come_and_go_whatever_happens(guest: Guest) -> None:
    problems = outcome(guest, "dm_lifetimes")

    assert len(problems) == 12
    assert {case: text for case, text in problems.items() if text} == {}


def test_in_a_container_nodes_are_made_and_removed(guest: Guest) -> None:
    done = python(guest, "-m", "tests.support.dm_container", before=("unshare", "--mount"))

    assert (done.returncode, done.stdout) == (0, b"ok\n"), done.stderr.decode()


TRY = """
from crashsim.faults.dm.errors import DeviceMapperMissing
from crashsim.faults.dm.session import DeviceMapper
try:
    DeviceMapper().__enter__()
except DeviceMapperMissing as error:
    print(error)
"""


def test_without_permission_there_is_one_line(guest: Guest) -> None:
    nobody = ("setpriv", "--reuid=65534", "--clear-groups")

    done = python(guest, "-c", TRY, before=nobody)

    assert done.stdout.startswith(b"no permission to use device-mapper (Permission denied): ")
    assert done.stdout.count(b"\n") == 1


def test_without_device_mapper_there_is_one_line(machine: QemuMachine) -> None:
    with machine.start() as guest:
        put_package(guest)
        script = "rmmod dm_log_writes dm_flakey dm_mod; echo /nowhere >/proc/sys/kernel/modprobe"
        assert guest.run(["sh", "-ec", script]).returncode == 0

        done = python(guest, "-c", TRY)

    assert done.stdout.startswith(b"this kernel has no device-mapper (No such "), done
    assert done.stdout.count(b"\n") == 1

"""What records in a Vagrant VM, on a guest's kernel: a spare disk, dm-log-writes, dm-flakey."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from crashsim.disk.dm_log_writes import import_dm_log
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log
from crashsim.disk.recording_disk import MemoryDisk
from crashsim.disk.request import Operation, Request
from crashsim.disk.state import CrashState
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.protocol import CommandResult
from crashsim.machines.qemu import QemuMachine
from crashsim.machines.qemu_guest import QemuGuest
from crashsim.machines.vagrant_side.staging import guest_files
from crashsim.workloads.staging import put_files

pytestmark = pytest.mark.vm

SIZE_BYTES = 64 << 20
BEFORE, LATE = b"flushed before the cut", b"written after the cut"

SCENARIO = f"""
import contextlib, hashlib, os, subprocess
from crashsim.faults.dm.session import DeviceMapper
from crashsim.machines.vagrant_side.disks import Slot
from crashsim.machines.vagrant_side.spare import find_spare

class Host:
    path, size_bytes = "/dev/vdb", {SIZE_BYTES}
    def break_off(self):
        pass

def digest(path):
    run("blockdev", "--flushbufs", path)  # what lies above it does not write through its cache
    with open(path, "rb") as file:
        return hashlib.sha256(file.read({SIZE_BYTES})).hexdigest()

def run(*command):
    subprocess.run(command, check=True)

run("modprobe", "dm-snapshot")
assert find_spare()[0] == "/dev/vdc", find_spare()
with DeviceMapper() as mapper, contextlib.ExitStack() as stack:
    slot = Slot(0, mapper, stack, Host())
    with open(slot.path, "rb") as file:
        assert file.read(9) == b"the hosts"
    slot.record()
    with open(slot.path, "rb") as file:
        assert not file.read(1 << 20).strip(bytes(1)), "it is not blank"
    run("mkfs.ext4", "-q", slot.path)
    os.makedirs("/tmp/disk")
    run("mount", slot.path, "/tmp/disk")
    with open("/tmp/disk/before", "wb") as file:
        file.write({BEFORE!r} * 1000)
    run("sync", "-f", "/tmp/disk")
    slot.recorder.mark("promised")
    slot.cut()
    on_disk = digest(slot.recorder._blank.path)
    with open("/tmp/disk/late", "wb") as file:
        file.write({LATE!r} * 1000)
    run("sync", "-f", "/tmp/disk")
    run("umount", "/tmp/disk")
    assert digest(slot.recorder._blank.path) == on_disk, "something was written after the cut"
    slot.let_go()
    print(on_disk, slot.recorder.finish())
with open("/dev/vdb", "rb") as file:
    assert file.read(9) == b"the hosts"
"""


@pytest.fixture
def disks() -> Iterator[list[MemoryDisk]]:
    made = [MemoryDisk(CRASH_DISK_BYTES) for _ in range(2)]
    yield made
    for disk in made:
        disk.close()


@pytest.fixture
def guest(machine: QemuMachine, disks: list[MemoryDisk]) -> Iterator[QemuGuest]:
    with machine.start() as guest:
        for slot, disk in enumerate(disks):
            guest.attach(slot, disk)
        put_files(guest, "/code", {**guest_files(), "scenario.py": SCENARIO.encode()})
        yield guest


def run_scenario(guest: QemuGuest) -> CommandResult:
    environment = {"PYTHONPATH": "/code"}
    return guest.run(["python3", "/code/scenario.py"], env=environment, timeout_seconds=200)


def test_the_power_cut_reaches_disk_and_log_alike(
    guest: QemuGuest, disks: list[MemoryDisk], tmp_path: Path
) -> None:
    disks[0].perform(Request(Operation.WRITE, 0, 512, data=b"the hosts own disk".ljust(512)))
    done = run_scenario(guest)
    assert done.returncode == 0, done.stderr.decode()
    digest, length = done.stdout.decode().split()

    (tmp_path / "kernel.log").write_bytes(disks[1].perform(Request(Operation.READ, 0, int(length))))
    import_dm_log(tmp_path / "kernel.log", tmp_path / "log", SIZE_BYTES)
    with Log.open(tmp_path / "log") as log:
        assert [mark.text for mark in log.marks] == ["promised"]
        image = ImageIndex(log).read(CrashState(log.event_count), 0, SIZE_BYTES)
    assert hashlib.sha256(image).hexdigest() == digest
    assert BEFORE * 100 in image
    assert LATE not in image


def test_where_two_disks_might_be_the_spare_one_none_is(guest: QemuGuest) -> None:
    done = run_scenario(guest)

    assert done.returncode != 0
    assert b"NoSpareDisk" in done.stderr
    assert b"there is vdb, vdc" in done.stderr

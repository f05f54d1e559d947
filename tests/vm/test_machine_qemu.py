"""QEMU as a machine: it conforms, it leaves nothing behind, and it is quick."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from crashsim.errors import UsageError
from crashsim.machines.failures import Cause, GuestDied
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.qemu import QemuMachine
from crashsim.machines.qemu_guest import QemuGuest
from tests.support.sparse_disk import SparseDisk
from tests.vm.conformance import (
    CommandConformance,
    DeathConformance,
    FilesystemConformance,
    MarkConformance,
    disk,
    text,
)

pytestmark = pytest.mark.vm
__all__ = ["disk"]


class TestCommands(CommandConformance):
    pass


class TestMarks(MarkConformance):
    pass


class TestFilesystems(FilesystemConformance):
    pass


class TestDeaths(DeathConformance):
    pass


@pytest.fixture
def guest(machine: QemuMachine) -> Iterator[QemuGuest]:
    with machine.start() as guest:
        yield guest


def descendants_of(process: int) -> list[int]:
    tasks = Path(f"/proc/{process}/task")
    return [
        int(child) for task in tasks.iterdir() for child in (task / "children").read_text().split()
    ]


def wait_until_gone(processes: list[int], seconds: float = 30) -> None:
    """Wait on pidfds, which are readable once a process has ended: pidfd_open(2)."""
    deadline = time.monotonic() + seconds
    for process in processes:
        while Path(f"/proc/{process}").exists() and not ended(process):
            assert time.monotonic() < deadline, f"process {process} still runs"
            time.sleep(0.01)


def ended(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"


def test_a_qemu_that_is_killed_is_told(guest: QemuGuest) -> None:
    os.kill(guest.process.pid, signal.SIGKILL)

    with pytest.raises(GuestDied) as died:
        text(guest, "sleep 1000")
    assert died.value.cause is Cause.GONE


def test_a_guest_leaves_no_process_thread_file_or_descriptor(
    machine: QemuMachine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    machine.start().kill()  # what stays for the life of this process is there afterwards
    before = len(os.listdir("/proc/self/fd")), threading.enumerate()
    with machine.start() as guest:
        pid = guest.process.pid
        text(guest, "true")
        assert os.listdir(tmp_path) == []

    assert ended(pid)
    assert os.listdir(tmp_path) == []
    assert (len(os.listdir("/proc/self/fd")), threading.enumerate()) == before


PARENT = """
import sys, time
from crashsim.machines.qemu import QemuMachine
machine = QemuMachine()
guests = [machine.start(), machine.start()]
print(*(guest.process.pid for guest in guests), flush=True)
{ending}
"""


@pytest.mark.parametrize("ending", ["killed", "returns", "raises"])
def test_no_qemu_outlives_its_parent(machine: QemuMachine, ending: str) -> None:
    machine.snapshot()
    code = {"killed": "time.sleep(1000)", "returns": "", "raises": "1 / 0"}[ending]
    with subprocess.Popen(
        [sys.executable, "-c", PARENT.format(ending=code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2
        if ending == "killed":
            assert not any(ended(pid) for pid in pids)
            parent.kill()
        parent.wait(60)
    wait_until_gone(pids)


def test_a_disk_of_another_size_is_refused(guest: QemuGuest) -> None:
    with pytest.raises(UsageError, match=str(CRASH_DISK_BYTES)):
        guest.attach(0, SparseDisk(1 << 20))


def test_guests_start_from_the_snapshot_much_faster_than_by_booting(
    machine: QemuMachine, tmp_path: Path
) -> None:
    """Processor time of QEMU, since this host may be busy with other things."""
    with machine.boot(tmp_path / "memory") as booted:
        booted.wait_for_agent(180)
        booting = processor_seconds(booted.process.pid)
    with machine.start() as guest:
        restoring = processor_seconds(guest.process.pid)

    assert restoring < booting / 8


def processor_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_the_memory_of_the_snapshot_is_never_written(machine: QemuMachine) -> None:
    snapshot = machine.snapshot()
    before = snapshot.memory.stat()
    with machine.start() as guest:
        text(guest, "dd if=/dev/urandom of=/dev/shm/fill bs=1M count=50 2>/dev/null")

    after = snapshot.memory.stat()
    assert (before.st_mtime_ns, before.st_blocks) == (after.st_mtime_ns, after.st_blocks)

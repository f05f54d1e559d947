"""What the store benchmark stands on: the latency that a guest sees, and dulwich in the guest."""

import time
from contextlib import closing

import pytest

from crashsim.disk.latency import Latency
from crashsim.disk.recording_disk import MemoryDisk
from crashsim.disk.request import Operation, Request
from crashsim.disk.server import Disk
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.qemu import QemuMachine
from crashsim.workloads.staging import put_files
from crashsim.workloads.store_programs import STAGE, dulwich_program

pytestmark = pytest.mark.vm

FLUSH_SECONDS = 0.5
STAMPING_SECONDS = 0.05
"""The latency counts from when the request was read, a moment before the disk is told of it."""


class FlushTimes:
    """A Disk that notes when FLUSHes come, and when they are answered, by the host's clock."""

    def __init__(self, disk: Disk) -> None:
        self.size_bytes = disk.size_bytes
        self.arrivals: list[float] = []
        self.replies: list[float] = []
        self._disk = disk
        self._flushes: set[int] = set()
        self._count = 0

    def arrived(self, request: Request) -> int:
        self._count += 1
        if request.operation is Operation.FLUSH:
            self._flushes.add(self._count)
            self.arrivals.append(time.monotonic())
        return self._count

    def perform(self, request: Request) -> bytes:
        return self._disk.perform(request)

    def replied(self, ticket: int, error: int) -> None:
        if ticket in self._flushes:
            self.replies.append(time.monotonic())


def test_a_guest_waits_for_a_flush_as_long_as_the_device_takes(machine: QemuMachine) -> None:
    """By one clock: the guest's own need not agree with that of the host to the millisecond."""
    with closing(MemoryDisk(CRASH_DISK_BYTES)) as disk, machine.start() as guest:
        times = FlushTimes(disk)
        guest.attach(0, times, Latency(flush_seconds=FLUSH_SECONDS))
        written = guest.run(
            ["dd", "if=/dev/urandom", "of=/dev/vdb", "bs=4096", "count=1", "conv=fsync"]
        )
        returned = time.monotonic()
        assert written.returncode == 0, written.stderr
        assert len(times.arrivals) == len(times.replies) == 1
        assert times.replies[0] - times.arrivals[0] >= FLUSH_SECONDS - STAMPING_SECONDS
        assert returned >= times.replies[0]


@pytest.mark.slow
def test_dulwich_runs_in_the_guest_without_being_installed_there(machine: QemuMachine) -> None:
    program = dulwich_program()
    script = (
        "git init -q . && echo one >one && $STORE add --all && $STORE commit -m one && git fsck"
    )
    with machine.start() as guest:
        put_files(guest, STAGE, program.staged)
        result = guest.run(
            ["sh", "-ec", f"mkdir r; cd r; {script}; git log --format=%s; git status --porcelain"],
            cwd=STAGE,
            env=program.environment,
            timeout_seconds=200.0,
        )
        assert (result.returncode, result.stdout) == (0, b"one\n"), result.stderr
        where = guest.run(["stat", "-f", "-c", "%T", STAGE])
        assert where.stdout == b"tmpfs\n"

"""What the store benchmark stands on: the latency that a guest sees, and dulwich in the guest."""

from contextlib import closing

import pytest

from crashsim.campaigns.bench_store import FlushCounter
from crashsim.disk.latency import Latency
from crashsim.disk.recording_disk import MemoryDisk
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.qemu import QemuMachine
from crashsim.workloads.staging import put_files
from crashsim.workloads.store_programs import STAGE, dulwich_program

pytestmark = pytest.mark.vm

FLUSH_SECONDS = 0.5


def test_a_guest_waits_for_a_flush_as_long_as_the_device_takes(machine: QemuMachine) -> None:
    with closing(MemoryDisk(CRASH_DISK_BYTES)) as disk, machine.start() as guest:
        counter = FlushCounter(disk)
        guest.attach(0, counter, Latency(flush_seconds=FLUSH_SECONDS))
        written = guest.run(
            ["dd", "if=/dev/urandom", "of=/dev/vdb", "bs=4096", "count=1", "conv=fsync"]
        )
        assert written.returncode == 0, written.stderr
        assert counter.flushes == 1
        assert written.seconds >= FLUSH_SECONDS


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

"""What recording costs the program under test: the crash disk against a plain disk of QEMU's.

Both sides run the same: mkfs, the git workload's set-up and steps, a sync; no disturbances, and no
promises, which would read the whole tree after each step. The guests differ in who answers for
/dev/vdb alone: our NBD server, which logs, or QEMU's own file driver with the host's page cache.
"""

import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from crashsim.campaigns.benchmark import Benchmark, Ratio, alternate, figure
from crashsim.campaigns.options import Progress
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.recording_disk import RecordingDisk
from crashsim.machines.filesystems import Filesystem
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.protocol import Guest
from crashsim.machines.qemu import QemuMachine
from crashsim.workloads.git import git_workload
from crashsim.workloads.git_options import GitOptions
from crashsim.workloads.protocol import Workload, WorkloadFailed

SLOT = 0
ROOT = f"/mnt/{SLOT}"


def bench_record(
    rounds: int, filesystem: Filesystem, fsync: str, parent: Path | None, progress: Progress
) -> Benchmark:
    """Run the git workload on either kind of disk in turn, each time in a fresh guest.

    :param rounds: how often each side is measured.
    :param fsync: git's `core.fsync`.
    :param parent: where the log and the raw disk's file go, in a directory that is removed again;
        None: where temporary files go. On a tmpfs neither side waits for a disk of the host.

    Raises InfrastructureError where no guest comes up, WorkloadFailed where git fails.
    """
    machine = QemuMachine()
    workload = git_workload(options=GitOptions(fsync=fsync))

    def crash_disk() -> float:
        return _on_crash_disk(machine, workload, filesystem, parent)

    def raw_disk() -> float:
        return _on_raw_disk(machine, workload, filesystem, parent)

    sides: dict[str, Callable[[], float]] = {
        "git on the crash disk": crash_disk,
        "git on a raw disk of QEMU": raw_disk,
    }
    measured = alternate(sides, rounds, progress)
    ours, plain = (figure(name, "s", seconds) for name, seconds in measured.items())
    return Benchmark(
        "record",
        [ours, plain],
        [Ratio("crash disk / raw disk", ours.median / plain.median, "at most 1.2")],
        [
            f"{filesystem.spelling}, core.fsync={fsync}: mkfs, set-up, {len(workload.steps)} steps"
            f" and a sync; {rounds} rounds, the sides in turn",
            f"{machine.info.kind}, {machine.info.accel}: {machine.info.reason}",
        ],
    )


def _on_crash_disk(
    machine: QemuMachine, workload: Workload, filesystem: Filesystem, parent: Path | None
) -> float:
    with (
        tempfile.TemporaryDirectory(prefix="crashsim-bench-", dir=parent) as directory,
        LogWriter(Path(directory), CRASH_DISK_BYTES) as writer,
        closing(RecordingDisk(writer, CRASH_DISK_BYTES)) as disk,
        machine.start() as guest,
    ):
        guest.attach(SLOT, disk)
        return _run(guest, workload, filesystem)


def _on_raw_disk(
    machine: QemuMachine, workload: Workload, filesystem: Filesystem, parent: Path | None
) -> float:
    with tempfile.NamedTemporaryFile(prefix="crashsim-bench-", dir=parent) as file:
        file.truncate(CRASH_DISK_BYTES)
        with machine.start(raw_disks={SLOT: Path(file.name)}) as guest:
            return _run(guest, workload, filesystem)


def _run(guest: Guest, workload: Workload, filesystem: Filesystem) -> float:
    """Seconds from mkfs to the end of the sync."""
    started = time.perf_counter()
    guest.format(SLOT, filesystem.fstype, filesystem.mkfs_argv)
    guest.mount(filesystem.mount(SLOT))
    workload.prepare(guest, ROOT)
    for step in workload.steps:
        result = guest.run(
            step.argv,
            cwd=f"{ROOT}/{step.directory}",
            env=workload.environment,
            timeout_seconds=step.timeout_seconds,
        )
        if result.timed_out or result.returncode != 0:
            raise WorkloadFailed(workload.name, step.name, result)
    synced = guest.run(["sync", "-f", ROOT])
    if synced.returncode != 0:
        raise WorkloadFailed(workload.name, "sync", synced)
    return time.perf_counter() - started

"""What recording costs the program under test: the crash disk against a plain disk of QEMU's.

Both sides run the same: mkfs, the git workload's set-up and steps, a sync; no disturbances, and no
promises, which would read the whole tree after each step. The guests differ in who answers for
/dev/vdb alone: our NBD server, which logs, or QEMU's own file driver with the host's page cache.
"""

import tempfile
from contextlib import closing
from pathlib import Path
from statistics import median

from crashsim.campaigns.benchmark import Benchmark, Meter, Ratio, alternate, figure
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

    crash, raw = Meter(), Meter()

    def on_crash_disk() -> None:
        _on_crash_disk(machine, workload, filesystem, parent, crash)

    def on_raw_disk() -> None:
        _on_raw_disk(machine, workload, filesystem, parent, raw)

    alternate([on_crash_disk, on_raw_disk], rounds, progress)
    sides = {"git on the crash disk": crash, "git on a raw disk of QEMU": raw}
    return Benchmark(
        "record",
        [
            *(figure(name, "s", side.seconds) for name, side in sides.items()),
            *(figure(f"CPU time: {name}", "s", side.cpu_seconds) for name, side in sides.items()),
        ],
        [
            Ratio(
                "crash disk / raw disk", median(crash.seconds) / median(raw.seconds), "at most 1.2"
            ),
            Ratio(
                "crash disk / raw disk, by CPU time",
                median(crash.cpu_seconds) / median(raw.cpu_seconds),
            ),
        ],
        [
            f"{filesystem.spelling}, core.fsync={fsync}: mkfs, set-up, {len(workload.steps)} steps"
            f" and a sync; {rounds} rounds, the sides in turn",
            f"{machine.info.kind}, {machine.info.accel}: {machine.info.reason}",
        ],
    )


def _on_crash_disk(
    machine: QemuMachine,
    workload: Workload,
    filesystem: Filesystem,
    parent: Path | None,
    meter: Meter,
) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="crashsim-bench-", dir=parent) as directory,
        LogWriter(Path(directory), CRASH_DISK_BYTES) as writer,
        closing(RecordingDisk(writer, CRASH_DISK_BYTES)) as disk,
        machine.start() as guest,
    ):
        guest.attach(SLOT, disk)
        with meter.measure():
            _run(guest, workload, filesystem)


def _on_raw_disk(
    machine: QemuMachine,
    workload: Workload,
    filesystem: Filesystem,
    parent: Path | None,
    meter: Meter,
) -> None:
    with tempfile.NamedTemporaryFile(prefix="crashsim-bench-", dir=parent) as file:
        file.truncate(CRASH_DISK_BYTES)
        with machine.start(raw_disks={SLOT: Path(file.name)}) as guest, meter.measure():
            _run(guest, workload, filesystem)


def _run(guest: Guest, workload: Workload, filesystem: Filesystem) -> None:
    """All from mkfs to a sync."""
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

"""Record a workload: everything that it sends to its disk, and when it promised what.

A recording goes through these phases, each of which is in the log:

1. *set-up*: mkfs, mount, the workload's own preparation, then a sync: durable, never explored;
2. the START mark, and the disturbances begin;
3. the *steps*: a mark before each, and a promise once its command has returned;
4. the END mark, and the disturbances end;
5. the *epilogue*: a sync, so that every write that was due at any cut is in the log too, and a
   report can say which one was missing. Then the guest is killed: nobody needs it to unmount.

Whatever goes wrong, the log up to then stays readable; but a guest that records its disk with its
own kernel (`MachineInfo.records`) ends by a power cut, and only then its log is brought here.

On a disk that fails (`Fault`) the first step that fails is the last; instead of 5 the filesystem is
read and synced as far as it goes.

A recording may also go on with the disk that another one left (`Origin`): the set-up is a recovery
then. One that ends with that has no START mark; one that explores it (`Origin.explored`) has it
before the recovery, which the steps then follow at once.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import msgspec

from crashsim.disk.latency import NO_LATENCY, Latency
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.recording import Manifest, Recording
from crashsim.disk.recording_disk import RecordingDisk
from crashsim.errors import CrashsimError, UsageError
from crashsim.faults.disturbances import Disturbance
from crashsim.machines.crash_disks import attach_disks
from crashsim.machines.filesystems import Filesystem, NoSuchSecondDisk, on_one_disk
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.protocol import Guest, KernelLog, KernelRecordingGuest, Machine
from crashsim.workloads.marks import FAILED
from crashsim.workloads.origin import Enough, Origin
from crashsim.workloads.protocol import Workload
from crashsim.workloads.session import SLOT, Clock, Progress, Promise, Session, no_progress
from crashsim.workloads.trouble import Fault, Trouble


def record(
    machine: Machine,
    workload: Workload,
    filesystem: Filesystem,
    directory: Path,
    *,
    disturbances: Sequence[Disturbance] = (),
    seed: int = 0,
    promise: Promise | None = None,
    latency: Latency = NO_LATENCY,
    origin: Origin | None = None,
    enough: Enough = lambda _name, _log: False,
    fault: Fault | None = None,
    progress: Progress = no_progress,
    clock: Clock | None = None,
) -> Recording:
    """Run `workload` on a fresh filesystem in a fresh guest and record its disk in `directory`.

    :param directory: for the recording; must not hold one already.
    :param disturbances: none for a recording that counts the workload's own flushes.
    :param seed: kept in the manifest; the workload and the disturbances have it already.
    :param promise: asked after the set-up and after each step. Leave it out for workloads that make
        their promises themselves, and where nobody will ask what was promised.
    :param latency: how long the disk lets the guest wait.
    :param origin: go on with the base image in `directory` instead of a fresh filesystem.
    :param enough: asked after each step.
    :param fault: what fails once the workload has begun. The first step that fails is the last one
        then; how each ended is in the manifest (`trouble`).

    Raises WorkloadFailed when the program under test fails by itself, BadMountOption for options
    that the kernel does not take, BadPromise for a promise that cannot be kept in a log,
    RecordingExists, RecordingDiskFull, NoSuchSecondDisk, and whatever the machine raises.
    """
    clock = clock or Clock()
    started = clock.monotonic()
    if machine.info.records and (origin or fault or latency is not NO_LATENCY):
        raise UsageError(
            f"--machine {machine.info.kind} records with the guest's own kernel: it goes without "
            "--fault, --device, --depth and --cut live"
        )
    if fault or origin or machine.info.records:
        on_one_disk(filesystem, "a disk that fails, a life after another, or a kernel's recording")
    _check_objects(workload, filesystem)
    manifest = _manifest(workload, filesystem, disturbances, seed)
    recording = Recording.create(directory, manifest)

    def session_in(
        guest: Guest,
        tape: LogWriter | KernelLog,
        done: Callable[[str], bool],
        trouble: Trouble | None = None,
    ) -> Session:
        return Session(
            guest,
            tape,
            workload,
            filesystem,
            disturbances,
            promise,
            clock,
            origin,
            done,
            trouble,
        )

    trouble = None
    if machine.info.records:
        with machine.start() as guest:
            booted = clock.monotonic()
            assert isinstance(guest, KernelRecordingGuest)
            log = guest.record_disk(SLOT)
            session_in(guest, log, lambda _: False).record(progress)
            log.finish(directory)
            info = guest.info
    else:
        with (
            recording.writer() as writer,
            closing(RecordingDisk(writer, writer.size_bytes, recording.base)) as disk,
            machine.start() as guest,
        ):
            booted = clock.monotonic()
            trouble = None if fault is None else fault.trouble(disk)
            session = session_in(guest, writer, lambda name: enough(name, writer), trouble)
            try:
                attached = (trouble and trouble.disk) or disk
                attach_disks(guest, attached, filesystem.disks, SLOT, latency)
                session.record(progress)
            except CrashsimError:
                # When the log is what failed, this raises why: the guest's trouble only came of it.
                writer.mark(FAILED)
                raise
            info = guest.info
    told = {} if trouble is None else {"trouble": trouble.told()}
    seconds = {"boot": booted - started, "record": clock.monotonic() - booted}
    return recording.with_manifest(
        msgspec.structs.replace(
            manifest,
            machine=asdict(info),
            details={**manifest.details, **told, "seconds": seconds, "complete": True},
        )
    )


def _check_objects(workload: Workload, filesystem: Filesystem) -> None:
    """A second filesystem is for a repository: its place must be in one."""
    directory = "" if filesystem.second is None else filesystem.second.directory
    if directory and not directory.startswith(tuple(f"{each}/" for each in workload.collect)):
        raise NoSuchSecondDisk(
            f"{filesystem.spelling}: target {workload.name} has no {directory}: take git or impl"
        )


def _manifest(
    workload: Workload, filesystem: Filesystem, disturbances: Sequence[Disturbance], seed: int
) -> Manifest:
    """What is known before anything runs; it is all that a recording cut short has."""
    return Manifest(
        disk_size_bytes=CRASH_DISK_BYTES * filesystem.disks,
        disks=filesystem.disks,
        filesystem=filesystem.fstype,
        mkfs_argv=filesystem.mkfs_argv,
        mount_options=filesystem.mount(SLOT).options,
        target=workload.name,
        steps=tuple(asdict(step) for step in workload.steps),
        seed=seed,
        disturbances=tuple(asdict(disturbance) for disturbance in disturbances),
        details={
            "workload": dict(workload.describe()),
            "filesystem": filesystem.spelling,
            "filesystem_size_bytes": filesystem.size_bytes,
            "complete": False,
        },
    )

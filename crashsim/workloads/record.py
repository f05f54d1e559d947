"""Record a workload: everything that it sends to its disk, and when it promised what.

A recording goes through these phases, each of which is in the log:

1. *set-up*: mkfs, mount, the workload's own preparation, then a sync: durable, never explored;
2. the START mark, and the disturbances begin;
3. the *steps*: a mark before each, and a promise once its command has returned;
4. the END mark, and the disturbances end;
5. the *epilogue*: a sync, so that every write that was due at any cut is in the log too, and a
   report can say which one was missing. Then the guest is killed: nobody needs it to unmount.

Whatever goes wrong, the log up to then stays readable.

On a disk that fails (`Fault`) the first step that fails is the last; instead of 5 the filesystem is
read and synced as far as it goes.

A recording may also go on with the disk that another one left (`Origin`): the set-up is a recovery
then. One that ends with that has no START mark.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import msgspec

from crashsim.disk.latency import NO_LATENCY, Latency
from crashsim.disk.recording import Manifest, Recording
from crashsim.disk.recording_disk import RecordingDisk
from crashsim.errors import CrashsimError
from crashsim.faults.disturbances import Disturbance
from crashsim.machines.filesystems import Filesystem
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.protocol import Machine
from crashsim.workloads.marks import FAILED
from crashsim.workloads.origin import Enough, Origin
from crashsim.workloads.protocol import Workload
from crashsim.workloads.session import SLOT, Clock, Progress, Promise, Session, no_progress
from crashsim.workloads.trouble import Fault


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
    RecordingExists, RecordingDiskFull, and whatever the machine raises.
    """
    clock = clock or Clock()
    started = clock.monotonic()
    manifest = _manifest(workload, filesystem, disturbances, seed)
    recording = Recording.create(directory, manifest)
    with (
        recording.writer() as writer,
        closing(RecordingDisk(writer, CRASH_DISK_BYTES, recording.base)) as disk,
        machine.start() as guest,
    ):
        booted = clock.monotonic()
        trouble = None if fault is None else fault.trouble(disk)
        session = Session(
            guest,
            writer,
            workload,
            filesystem,
            disturbances,
            promise,
            clock,
            origin,
            enough,
            trouble,
        )
        try:
            guest.attach(SLOT, (trouble and trouble.disk) or disk, latency)
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


def _manifest(
    workload: Workload, filesystem: Filesystem, disturbances: Sequence[Disturbance], seed: int
) -> Manifest:
    """What is known before anything runs; it is all that a recording cut short has."""
    return Manifest(
        disk_size_bytes=CRASH_DISK_BYTES,
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

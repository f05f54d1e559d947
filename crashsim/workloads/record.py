"""Record a workload: everything that it sends to its disk, and when it promised what.

A recording goes through these phases, each of which is in the log:

1. *set-up*: mkfs, mount, the workload's own preparation, then a sync: durable, never explored;
2. the START mark, and the disturbances begin;
3. the *steps*: a mark before each, and a promise once its command has returned;
4. the END mark, and the disturbances end;
5. the *epilogue*: a sync, so that every write that was due at any cut is in the log too, and a
   report can say which one was missing. Then the guest is killed: nobody needs it to unmount.

Whatever goes wrong, the log up to then stays readable.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from crashsim.disk.log_writer import LogWriter
from crashsim.disk.recording import Manifest, Recording
from crashsim.disk.recording_disk import RecordingDisk
from crashsim.errors import CrashsimError, InfrastructureError
from crashsim.faults.disturbances import (
    EXCLUDE,
    IN_GUEST,
    Disturbance,
    Kind,
    find,
    pauses_seconds,
    slow_down,
)
from crashsim.machines.failures import AgentError, MountFailed
from crashsim.machines.filesystems import BadMountOption, Filesystem
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.protocol import CommandResult, Guest, Machine
from crashsim.machines.tree import Tree
from crashsim.workloads.marks import END, FAILED, START, checked_promise, step_mark
from crashsim.workloads.protocol import CommandNotStarted, Step, Workload, WorkloadFailed

SLOT = 0
ROOT = f"/mnt/{SLOT}"

PREPARED = "prepare"
"""The name under which the promise is asked for that holds from START on."""

Promise = Callable[[str, Tree], str]
"""promise(name of a step, the tree after it) -> text of a mark that says what holds from then on.

The tree is the whole filesystem, with contents below the workload's `collect` prefixes.
"""

Progress = Callable[[str, int, int], None]
"""progress(what is going on, done, total); a total of 0 means that it is not known."""

_QUIET_SECONDS = 0.2
_QUIET_SECONDS_MAX = 10.0

_NOT_STARTED = frozenset({"ENOENT", "EACCES", "ENOEXEC", "ENOTDIR"})
"""execve(2): there is no such program, or it is none."""


class GuestCommandFailed(InfrastructureError):
    """A command that crashsim itself runs in the guest failed."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, so that tests need not wait for it."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def no_progress(_phase: str, _done: int, _total: int) -> None:
    """Show nothing."""


def record(
    machine: Machine,
    workload: Workload,
    filesystem: Filesystem,
    directory: Path,
    *,
    disturbances: Sequence[Disturbance] = (),
    seed: int = 0,
    promise: Promise | None = None,
    progress: Progress = no_progress,
    clock: Clock | None = None,
) -> Recording:
    """Run `workload` on a fresh filesystem in a fresh guest and record its disk in `directory`.

    :param directory: for the recording; must not hold one already.
    :param disturbances: none for a recording that counts the workload's own flushes.
    :param seed: kept in the manifest; the workload and the disturbances have it already.
    :param promise: asked after the set-up and after each step. Leave it out for workloads that make
        their promises themselves, and where nobody will ask what was promised.

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
        closing(RecordingDisk(writer, CRASH_DISK_BYTES)) as disk,
        machine.start() as guest,
    ):
        booted = clock.monotonic()
        session = _Session(guest, writer, workload, filesystem, disturbances, promise, clock)
        try:
            guest.attach(SLOT, disk)
            session.record(progress)
        except CrashsimError:
            # When the log is what failed, this raises why: the guest's trouble only came of it.
            writer.mark(FAILED)
            raise
        info = guest.info
    seconds = {"boot": booted - started, "record": clock.monotonic() - booted}
    return recording.with_manifest(
        msgspec.structs.replace(
            manifest,
            machine=asdict(info),
            details={**manifest.details, "seconds": seconds, "complete": True},
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


@dataclass(frozen=True, slots=True)
class _Session:
    """One recording under way, in a guest that has its crash disk."""

    guest: Guest
    writer: LogWriter
    workload: Workload
    filesystem: Filesystem
    disturbances: Sequence[Disturbance]
    promise: Promise | None
    clock: Clock

    def record(self, progress: Progress) -> None:
        """All phases."""
        steps = self.workload.steps
        progress("set-up", 0, len(steps))
        self._set_up()
        self.writer.mark(START)
        self._keep_promise(PREPARED)
        for disturbance in self.disturbances:
            if disturbance.kind in IN_GUEST:
                self.guest.disturb(disturbance.specification(ROOT))
        commit = find(self.disturbances, Kind.COMMIT)
        pauses = pauses_seconds(commit, len(steps)) if commit else [0.0] * len(steps)
        for number, (step, pause) in enumerate(zip(steps, pauses, strict=True)):
            progress(step.name, number, len(steps))
            self._take_step(number, step)
            self.clock.sleep(pause)
        self.writer.mark(END)
        progress("epilogue", len(steps), len(steps))
        self.guest.calm()
        self._sync()

    def _set_up(self) -> None:
        short_commit = find(self.disturbances, Kind.COMMIT) is not None
        self.guest.format(SLOT, self.filesystem.fstype, self.filesystem.mkfs_argv)
        self._mount(short_commit)
        if short_commit:
            for setting in self.filesystem.short_commit_settings:
                _run(self.guest, _SET, setting.path, setting.value)
        self.workload.prepare(self.guest, ROOT)
        self._sync()

    def _mount(self, short_commit: bool) -> None:
        try:
            self.guest.mount(self.filesystem.mount(SLOT, short_commit=short_commit))
        except MountFailed as error:
            if not self.filesystem.mount_options:
                raise
            raise BadMountOption(
                f"this kernel does not mount a fresh {self.filesystem.fstype} with "
                f"{','.join(self.filesystem.mount_options)} ({error.errno_name}): check the options"
            ) from error

    def _take_step(self, number: int, step: Step) -> None:
        self.writer.mark(step_mark(step.name))
        slow = find(self.disturbances, Kind.SLOW)
        argv = slow_down(slow, step.argv, number) if slow else step.argv
        try:
            result = self._run_step(step, argv)
        except AgentError as error:
            if error.errno_name not in _NOT_STARTED:
                raise
            raise CommandNotStarted(
                f"workload {self.workload.name}: {step.name}: cannot start {step.argv[0]!r} in the "
                f"guest ({error.errno_name}): is it in the image, or in --payload's bin/?"
            ) from error
        if result.timed_out or result.returncode != 0:
            raise WorkloadFailed(self.workload.name, step.name, result)
        self._keep_promise(step.name)

    def _run_step(self, step: Step, argv: Sequence[str]) -> CommandResult:
        return self.guest.run(
            argv,
            cwd=f"{ROOT}/{step.directory}".rstrip("/"),
            env=self.workload.environment,
            timeout_seconds=step.timeout_seconds,
            on_mark=lambda text: _mark_promise(self.writer, text),
        )

    def _keep_promise(self, name: str) -> None:
        """Promise what the tree holds now, through the page cache, as its user sees it."""
        if self.promise is not None:
            tree = self.guest.tree(ROOT, exclude=EXCLUDE, collect=self.workload.collect)
            _mark_promise(self.writer, self.promise(name, tree))

    def _sync(self) -> None:
        """Make everything durable and wait until the disk is quiet.

        Twice, since the first sync of a log-structured or copy-on-write filesystem may itself leave
        work behind (freed space to give back) that only the next one writes.
        """
        for _ in range(2):
            _run(self.guest, 'sync -f "$1"', ROOT)
        seen = -1
        deadline = self.clock.monotonic() + _QUIET_SECONDS_MAX
        while seen != self.writer.event_count and self.clock.monotonic() < deadline:
            seen = self.writer.event_count
            self.clock.sleep(_QUIET_SECONDS)


_SET = 'for file in $1; do printf %s "$2" >"$file"; done'


def _run(guest: Guest, script: str, *arguments: str) -> None:
    result = guest.run(["sh", "-euc", script, "sh", *arguments])
    if result.returncode != 0:
        told = result.stderr.decode("utf-8", "replace").strip()
        raise GuestCommandFailed(f"in the guest, {script!r} failed: {told}")


def _mark_promise(writer: LogWriter, text: str) -> None:
    writer.mark(checked_promise(text))

"""One recording under way: its phases, in a guest that has its crash disk.

`crashsim.workloads.record` says what they are.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crashsim.disk.log_writer import LogWriter
from crashsim.faults.disturbances import (
    DISTURBANCE_DIRECTORY,
    EXCLUDE,
    IN_GUEST,
    Disturbance,
    Kind,
    find,
    pauses_seconds,
    slow_down,
)
from crashsim.machines.crash_disks import make_filesystem, mount_fresh
from crashsim.machines.failures import AgentError, MountFailed
from crashsim.machines.filesystems import BadMountOption, Filesystem
from crashsim.machines.protocol import CommandResult, Guest, KernelLog
from crashsim.machines.tree import Tree
from crashsim.workloads.guest_scripts import run_in
from crashsim.workloads.marks import AFTERMATH, END, START, checked_promise, step_mark
from crashsim.workloads.origin import Origin
from crashsim.workloads.protocol import CommandNotStarted, Step, Workload, WorkloadFailed
from crashsim.workloads.trouble import Trouble

SLOT = 0
ROOT = f"/mnt/{SLOT}"

PREPARED = "prepare"
"""The name under which the promise is asked for that holds from START on."""

RECOVERY = "recovery"
"""The step that an explored recovery begins with (`Origin.explored`): the mount."""

Promise = Callable[[str, Tree], str]
"""promise(name of a step, the tree after it) -> text of a mark that says what holds from then on.

The tree is the whole filesystem, with contents below the workload's `collect` prefixes.
"""

Progress = Callable[[str, int, int], None]
"""progress(what is going on, done, total); a total of 0 means that it is not known."""

_AFTER = "after the failure"
"""The name under which the promise is asked for that nobody made."""

_QUIET_SECONDS = 0.2
_QUIET_SECONDS_MAX = 10.0

_NOT_STARTED = frozenset({"ENOENT", "EACCES", "ENOEXEC", "ENOTDIR"})
"""execve(2): there is no such program, or it is none."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Time, so that tests need not wait for it."""

    monotonic: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


def no_progress(_phase: str, _done: int, _total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class Session:
    """One recording under way, in a guest that has its crash disk."""

    guest: Guest
    writer: LogWriter | KernelLog
    workload: Workload
    filesystem: Filesystem
    disturbances: Sequence[Disturbance]
    promise: Promise | None
    clock: Clock
    origin: Origin | None
    enough: Callable[[str], bool]
    trouble: Trouble | None

    def record(self, progress: Progress) -> None:
        """All phases."""
        steps = self.workload.steps
        progress("set-up", 0, len(steps))
        self._set_up()
        if self.origin is None or not self.origin.explored:
            self._begin()
        if steps:
            self._take_steps(progress)
        self.writer.mark(END)
        progress("epilogue", len(steps), len(steps))
        self.guest.calm()
        if self.trouble is None:
            self._sync()
        else:
            self._see_aftermath(self.trouble)

    def _begin(self) -> None:
        """Everything is durable: exploration starts here, and the workload's own promises."""
        if self.workload.steps or self.origin is None:
            self.writer.mark(START)
        self._keep_promise(PREPARED)

    def _see_aftermath(self, trouble: Trouble) -> None:
        """What running programs see now may be on the disk, whether it was promised or not."""
        seen: list[str] = []
        if self.promise is not None:
            trouble.tolerate("reading it", lambda: seen.append(self._promise_of(_AFTER)))
        trouble.tolerate("syncing it", self._sync)
        self.writer.mark(AFTERMATH)
        for text in seen:
            _mark_promise(self.writer, text)

    def _take_steps(self, progress: Progress) -> None:
        steps = self.workload.steps
        for disturbance in self.disturbances:
            if disturbance.kind in IN_GUEST:
                self.guest.disturb(disturbance.specification(ROOT))
        if self.trouble is not None:
            self.trouble.begin()
        commit = find(self.disturbances, Kind.COMMIT)
        pauses = pauses_seconds(commit, len(steps)) if commit else [0.0] * len(steps)
        for number, (step, pause) in enumerate(zip(steps, pauses, strict=True)):
            progress(step.name, number, len(steps))
            if not self._take_step(number, step):
                break
            if self.enough(step.name):
                break
            self.clock.sleep(pause)

    def _set_up(self) -> None:
        short_commit = find(self.disturbances, Kind.COMMIT) is not None
        if self.origin is None:
            make_filesystem(self.guest, self.filesystem, SLOT)
            self._mount(short_commit)
            self.workload.prepare(self.guest, ROOT)
        else:
            self._recover(self.origin, short_commit)
        if short_commit:
            for setting in self.filesystem.short_commit_settings:
                run_in(self.guest, _SET, setting.path, setting.value)
        if self.trouble is not None:
            self.trouble.fill(self.guest, ROOT, DISTURBANCE_DIRECTORY)
        if self.origin is None or not self.origin.explored:
            self._sync()

    def _recover(self, origin: Origin, short_commit: bool) -> None:
        for text in origin.promises:
            _mark_promise(self.writer, text)
        if origin.explored:
            self.writer.mark(START)
            self.writer.mark(step_mark(RECOVERY))
        recovery = self.guest.recover(
            self.filesystem.mount(SLOT, short_commit=short_commit),
            exclude=EXCLUDE,
            collect=self.workload.collect,
        )
        origin.recovered(self.guest, recovery)

    def _mount(self, short_commit: bool) -> None:
        try:
            mount_fresh(self.guest, self.filesystem.mount(SLOT, short_commit=short_commit))
        except MountFailed as error:
            if not self.filesystem.mount_options:
                raise
            raise BadMountOption(
                f"this kernel does not mount a fresh {self.filesystem.fstype} with "
                f"{','.join(self.filesystem.mount_options)} ({error.errno_name}): check the options"
            ) from error

    def _take_step(self, number: int, step: Step) -> bool:
        """Whether it succeeded; on a sound disk it has to."""
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
        if self.trouble is not None:
            if not self.trouble.note(step.name, result):
                return False
            return self.trouble.tolerate(
                f"reading it after {step.name}", lambda: self._keep_promise(step.name)
            )
        if result.timed_out or result.returncode != 0:
            raise WorkloadFailed(self.workload.name, step.name, result)
        self._keep_promise(step.name)
        return True

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
            _mark_promise(self.writer, self._promise_of(name))

    def _promise_of(self, name: str) -> str:
        assert self.promise is not None
        tree = self.guest.tree(ROOT, exclude=EXCLUDE, collect=self.workload.collect)
        return self.promise(name, tree)

    def _sync(self) -> None:
        """Make everything durable and wait until the disk is quiet.

        Twice, since the first sync of a log-structured or copy-on-write filesystem may itself leave
        work behind (freed space to give back) that only the next one writes.
        """
        inside = (each.at for each in self.filesystem.mount(SLOT).then)
        roots = [ROOT, *inside]
        for _ in range(2):
            run_in(self.guest, 'sync -f "$@"', *roots)
        seen = -1
        deadline = self.clock.monotonic() + _QUIET_SECONDS_MAX
        while seen != self.writer.event_count and self.clock.monotonic() < deadline:
            seen = self.writer.event_count
            self.clock.sleep(_QUIET_SECONDS)


_SET = 'for file in $1; do printf %s "$2" >"$file"; done'


def _mark_promise(writer: LogWriter | KernelLog, text: str) -> None:
    writer.mark(checked_promise(text))

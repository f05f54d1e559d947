"""What a store's operations take: real git, the reference store and dulwich, side by side.

In one guest, taking turns, each on a fresh filesystem: on a tmpfs, on the crash disk, and on a
crash disk that takes as long as a real device. The guest's own clock is what is looked at.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from crashsim.campaigns.benchmark import Benchmark, alternate, cpu_seconds, figure
from crashsim.campaigns.options import Progress
from crashsim.campaigns.store_times import StoreTimes, Taken, Where, missed
from crashsim.disk.latency import NO_LATENCY, Latency
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.profile import DeviceProfile
from crashsim.disk.recording_disk import NullDisk, RecordingDisk
from crashsim.disk.request import Operation, Request
from crashsim.disk.server import Disk
from crashsim.errors import InfrastructureError, UsageError
from crashsim.machines.filesystems import Filesystem, resized
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.protocol import CommandResult, Guest
from crashsim.machines.qemu import QemuMachine
from crashsim.workloads.guest_scripts import run_in
from crashsim.workloads.staging import put_files
from crashsim.workloads.store_operations import (
    INIT,
    MAKE_OBJECTS,
    OPERATIONS,
    VERIFY,
    StoreSize,
    input_files,
)
from crashsim.workloads.store_programs import (
    STAGE,
    StoreProgram,
    dulwich_program,
    git_program,
    impl_program,
)

SLOT = 0
COMMAND_SECONDS = 1800.0
TMPFS = "tmpfs"
FILESYSTEM_BYTES = 1 << 30
"""So much is made of the crash disk: 10,000 references and their reflogs are 20,000 inodes."""
CRASH_DISK = "crash disk"
_WARM = StoreSize(files=10, objects=5, references=10)


class StoreFailed(InfrastructureError):
    """A program did not do what is to be measured, or a preparation did not work."""


class FlushCounter:
    """A Disk that counts FLUSHes, and leaves everything else to another."""

    def __init__(self, disk: Disk) -> None:
        """Count from 0."""
        self.size_bytes = disk.size_bytes
        self.flushes = 0
        self._disk = disk
        self.perform = disk.perform
        self.replied = disk.replied

    def arrived(self, request: Request) -> int:
        """Count it if it is one."""
        self.flushes += request.operation is Operation.FLUSH
        return self._disk.arrived(request)


@dataclass(frozen=True, slots=True)
class Place:
    """Where repositories lie.

    :ivar latency: of the crash disk; None for a tmpfs.
    :ivar programs: which are measured there.
    """

    name: str
    latency: Latency | None
    programs: Sequence[StoreProgram]


@dataclass
class _Bench:
    """A guest in which times are taken."""

    guest: Guest
    filesystem: Filesystem
    size: StoreSize
    parent: Path | None
    times: StoreTimes
    start_up_seconds: list[float] = field(default_factory=list)
    _verified: set[tuple[str, str]] = field(default_factory=set)

    def set_up(self, programs: Sequence[StoreProgram]) -> None:
        """Stage everything, and run each program once: its modules are compiled then."""
        staged: dict[str, bytes] = {}
        for program in programs:
            staged |= program.staged
        for name, size in (("input", self.size), ("warm", _WARM)):
            staged |= {f"{name}/{path}": data for path, data in input_files(size, 0).items()}
        put_files(self.guest, STAGE, staged)
        for name in ("input", "warm"):
            self._script(programs[0], name, "/", MAKE_OBJECTS)
        for program in programs:
            self._take(program, "warm", Place(TMPFS, None, ()), None)

    def turn(self, place: Place, program: StoreProgram) -> None:
        """Let one program do everything once, and look at the first such repository."""
        self._take(program, "input", place, self.times)

    def start_python(self) -> None:
        """How long an interpreter takes that has nothing to do."""
        result = self.guest.run(["python3", "-c", "pass"])
        self.start_up_seconds.append(result.seconds)

    def _take(
        self, program: StoreProgram, source: str, place: Place, times: StoreTimes | None
    ) -> None:
        with self._repository(place) as (root, counter):
            self._script(program, source, root, INIT + "\n" + program.set_up)
            for operation in OPERATIONS:
                self._script(program, source, root, operation.prepare + f"\nsync -f {root}")
                flushes, cpu = counter.flushes, cpu_seconds()
                result = self._script(program, source, root, operation.command)
                taken = Taken(result.seconds, cpu_seconds() - cpu, counter.flushes - flushes)
                if times is not None:
                    times.add(Where(place.name, operation.name, program.name), taken)
            if times is not None and (place.name, program.name) not in self._verified:
                self._script(program, source, root, VERIFY)
                self._verified.add((place.name, program.name))

    def _script(
        self, program: StoreProgram, source: str, directory: str, script: str
    ) -> CommandResult:
        size = self.size
        result = self.guest.run(
            ["sh", "-ec", script],
            cwd=directory,
            env={
                **program.environment,
                "INPUT": f"{STAGE}/{source}",
                "FILES": str(size.files),
                "REFERENCES": str(size.references),
            },
            timeout_seconds=COMMAND_SECONDS,
        )
        if result.timed_out or result.returncode != 0:
            told = (result.stderr + result.stdout).decode("utf-8", "replace").strip()
            raise StoreFailed(
                f"{program.name}: {' '.join(script.split())[:120]!r} ended with "
                f"{result.returncode}: {told[-1000:]}"
            )
        return result

    @contextmanager
    def _repository(self, place: Place) -> Iterator[tuple[str, FlushCounter]]:
        """A fresh directory in a place, and what counts the flushes of its disk."""
        if place.latency is None:
            root = f"{STAGE}/repository"
            run_in(self.guest, 'mkdir "$1"', root)
            yield root, FlushCounter(NullDisk(CRASH_DISK_BYTES))
            run_in(self.guest, 'rm -rf "$1"', root, timeout_seconds=COMMAND_SECONDS)
            return
        with (
            tempfile.TemporaryDirectory(prefix="crashsim-bench-", dir=self.parent) as directory,
            LogWriter(Path(directory), CRASH_DISK_BYTES) as writer,
            closing(RecordingDisk(writer, CRASH_DISK_BYTES)) as disk,
        ):
            counter = FlushCounter(disk)
            self.guest.attach(SLOT, counter, place.latency)
            self.guest.format(SLOT, self.filesystem.fstype, self.filesystem.mkfs_argv)
            self.guest.mount(self.filesystem.mount(SLOT))
            root = f"/mnt/{SLOT}/repository"
            run_in(self.guest, 'mkdir "$1"', root)
            yield root, counter
            self.guest.unmount(SLOT)
            self.guest.attach(SLOT, NullDisk(CRASH_DISK_BYTES))


def bench_store(
    size: StoreSize,
    rounds: int,
    filesystem: Filesystem,
    profile: DeviceProfile,
    parent: Path | None,
    progress: Progress,
) -> Benchmark:
    """Measure the six operations.

    :param rounds: how often each program does them in each place.
    :param profile: the device whose latency the third place has.
    :param parent: where the crash disks' logs go meanwhile.

    Raises DulwichNotInstalled, UsageError for a profile without a flush latency, StoreFailed, and
    InfrastructureError where no guest comes up.
    """
    if not profile.flush_latency_ms:
        raise UsageError(f"device profile {profile.name} has no flush latency: choose another")
    stores = [git_program(), impl_program(), dulwich_program()]
    methods = [impl_program("batch"), impl_program("paired-syncfs")]
    slow_place = f"{CRASH_DISK}, {profile.name}"
    places = [
        Place(TMPFS, None, stores),
        Place(CRASH_DISK, NO_LATENCY, stores),
        Place(slow_place, profile.latency, [*stores, *methods]),
    ]
    machine = QemuMachine()
    with machine.start() as guest:
        times = StoreTimes({slow_place: profile.latency.flush_seconds})
        bench = _Bench(guest, resized(filesystem, FILESYSTEM_BYTES), size, parent, times)
        progress("set-up", 0, 0)
        bench.set_up([*stores, *methods])
        turns = [
            partial(bench.turn, place, program) for place in places for program in place.programs
        ]
        alternate([*turns, bench.start_python], rounds, progress)
    ratios = [*times.ratios(slow_place)]
    return Benchmark(
        "store",
        [*times.figures(), figure("python3 -c pass", "s", bench.start_up_seconds)],
        ratios,
        [
            f"{filesystem.spelling}; {size.files} files, {size.objects} objects, "
            f"{size.references:,} references; core.fsync=all; {rounds} rounds, in turn",
            f"{profile.name}: a flush takes {profile.flush_latency_ms} ms, a write "
            f"{profile.write_latency_ms} ms, beside what the crash disk itself takes",
            *(f"missed: {ratio.name} is {ratio.value:.2f}" for ratio in missed(ratios)),
            f"{machine.info.kind}, {machine.info.accel}: {machine.info.reason}",
        ],
    )

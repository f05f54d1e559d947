"""`crashsim run` as a function: record, explore, shrink, explain."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from crashsim.campaigns.explaining import Explainer, Snapshots
from crashsim.campaigns.faulty import fault_result
from crashsim.campaigns.findings import Case, make_cases
from crashsim.campaigns.options import Progress, RunOptions, no_progress
from crashsim.campaigns.prepared_machine import with_payload
from crashsim.campaigns.recorded import Recorded, open_recorded
from crashsim.campaigns.results import (
    DecidedBy,
    LogResult,
    MachineResult,
    PropertyResult,
    RunResult,
    Seconds,
    StatesResult,
)
from crashsim.campaigns.targets import Target
from crashsim.disk.log import Log
from crashsim.explore.engine import LocalEngine
from crashsim.explore.exploration import Exploration
from crashsim.explore.exploring import Budget, explore
from crashsim.explore.verdict import PRUNINGS
from crashsim.explore.verdict import DecidedBy as How
from crashsim.machines.images.build import BuildProgress
from crashsim.machines.images.recipe import ImageSpec
from crashsim.machines.protocol import Machine
from crashsim.machines.select import choose_machine
from crashsim.workloads.figures import figures
from crashsim.workloads.git import GitWorkload
from crashsim.workloads.origin import Enough, Origin
from crashsim.workloads.record import record

RECORDING = "recording"
QUIET_RECORDING = "recording-quiet"


@dataclass(frozen=True)
class RunOutcome:
    """What came out of a run, before anything but the recordings is on disk.

    :ivar result: without its findings' bundles.
    :ivar cases: what the bundles are made of, one for each finding of `result`.
    :ivar directory: where this run's recordings are and its results belong.
    """

    result: RunResult
    cases: tuple[Case, ...]
    oracle: Mapping[str, Any]
    payload: Path | None
    directory: Path


class Stopwatch:
    """Adds up the seconds spent in named phases."""

    def __init__(self) -> None:
        """Start the total."""
        self._started = time.perf_counter()
        self.seconds: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Add the time spent inside to phase `name`, also when it fails."""
        started = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started

    def result(self) -> Seconds:
        """What was measured up to now."""
        return Seconds(**self.seconds, total=time.perf_counter() - self._started)


def prepare_machine(
    options: RunOptions, payload: Path | None, progress: Progress = no_progress
) -> Machine:
    """The machine that the options ask for, its image built and booted once.

    Raises UnknownMachine, and InfrastructureError where there is no such machine.
    """

    def building(build: BuildProgress) -> None:
        progress(f"guest image: {build.phase}", int(100 * build.fraction), 100)

    machine = choose_machine(options.machine, ImageSpec(kernel=options.kernel), progress=building)
    with machine.start():
        pass
    return with_payload(machine, payload)


def run_campaign(
    target: Target,
    options: RunOptions,
    progress: Progress = no_progress,
    machine: Machine | None = None,
) -> RunOutcome:
    """Record `target`, explore the recording, and make cases of what is violated.

    :param machine: use this one in place of `options.machine`, for campaigns of several runs.

    Raises UsageError for input that makes no sense, and InfrastructureError when the machinery
    fails: there is no verdict then, and what was recorded stays in the run's directory.
    """
    watch = Stopwatch()
    with watch.phase("boot"):
        machine = machine or prepare_machine(options, target.payload, progress)
    directory = new_directory(options.out, run_name(target, options))
    with watch.phase("record"):
        snapshots = Snapshots()
        record_target(target, options, machine, directory / RECORDING, progress, snapshots)
        cost = _cost(target, options, machine, directory / QUIET_RECORDING, progress)
    with open_target(target, options, directory / RECORDING) as recorded:
        decider = recorded.decider(PRUNINGS if options.prune else frozenset())
        with watch.phase("explore"):
            exploration = explore(
                decider,
                LocalEngine(decider, lambda: recorded.recoverer(machine), options.jobs),
                Budget(
                    states=options.states,
                    time_limit_seconds=options.time_limit_seconds,
                    seed=options.seed,
                ),
                options.profile.atomic_unit_bytes,
                _exploring(progress),
            )
        with watch.phase("shrink"):
            explainer = Explainer(recorded, target, options, machine, snapshots)
            cases = make_cases(recorded, decider, exploration, explainer, directory, progress)
        result = _result(target, options, machine, recorded, exploration, cases, cost)
        if options.fault is not None:
            told = fault_result(
                options.fault, options, recorded, decider, machine, directory / RECORDING
            )
            result = msgspec.structs.replace(result, fault=told)
    result = msgspec.structs.replace(result, seconds=watch.result())
    return RunOutcome(result, cases, target.oracle, target.payload, directory)


def open_target(
    target: Target, options: RunOptions, directory: Path
) -> AbstractContextManager[Recorded]:
    """`open_recorded` for a recording that was made of `target` with `options`."""
    return open_recorded(
        directory,
        options.filesystem,
        target.oracle,
        tuple(target.workload.collect),
        options.profile,
    )


def run_name(target: Target, options: RunOptions) -> str:
    """What the directory of a run is called: `git-ext4-none-fsync`."""
    parts = [target.name, options.filesystem.spelling]
    if isinstance(target.workload, GitWorkload):
        parts += [target.options.fsync, target.options.method]
    return "-".join("".join(c if c.isalnum() else "-" for c in part).strip("-") for part in parts)


def new_directory(parent: Path, name: str) -> Path:
    """Make a directory that was not there before: `name`, or `name.2` and so on."""
    number = 1
    while True:
        directory = parent / (name if number == 1 else f"{name}.{number}")
        try:
            directory.mkdir(parents=True)
        except FileExistsError:
            number += 1
            continue
        return directory


def record_target(
    target: Target,
    options: RunOptions,
    machine: Machine,
    directory: Path,
    progress: Progress,
    snapshots: Snapshots | None = None,
    *,
    origin: Origin | None = None,
    enough: Enough = lambda _name, _log: False,
) -> None:
    """Record the target's workload in `directory`, with how it was made.

    :param snapshots: takes the trees after each step. Without it the recording is a quiet one,
        without disturbances and promises: good for counting what the workload alone does.
    :param origin: as `record` takes it.
    :param enough: as `record` takes it.
    """
    disturbances = () if snapshots is None else options.disturbances
    promise = None
    if snapshots is not None and target.promise is not None:
        promise = snapshots.keeping(target.promise)
    recording = record(
        machine,
        target.workload,
        options.filesystem,
        directory,
        disturbances=disturbances,
        seed=options.seed,
        promise=promise,
        latency=options.profile.latency,
        origin=origin,
        enough=enough,
        fault=None if snapshots is None else options.fault,
        progress=progress,
    )
    details = {
        **recording.manifest.details,
        "oracle": dict(target.oracle),
        "collect": list(target.workload.collect),
        "device": options.profile.name,
    }
    recording.with_manifest(msgspec.structs.replace(recording.manifest, details=details))


def _cost(
    target: Target, options: RunOptions, machine: Machine, directory: Path, progress: Progress
) -> int | None:
    """FLUSH requests of the workload on its own, by a recording without disturbances."""
    if not options.measure_cost:
        return None
    record_target(target, options, machine, directory, progress)
    with Log.open(directory) as log:
        return figures(log).flushes


def _exploring(progress: Progress) -> Callable[[int, int, int], None]:
    def show(decided: int, total: int, kinds: int) -> None:
        progress(f"explore ({kinds} kinds of violations)" if kinds else "explore", decided, total)

    return show


def _result(
    target: Target,
    options: RunOptions,
    machine: Machine,
    recorded: Recorded,
    exploration: Exploration,
    cases: tuple[Case, ...],
    cost: int | None,
) -> RunResult:
    counted = figures(recorded.log)
    by = {how: exploration.decided_by.get(how, 0) for how in How}
    return RunResult(
        target=target.name,
        fs=options.filesystem.spelling,
        fsync=target.options.fsync,
        method=target.options.method,
        machine=MachineResult.of(machine.info),
        seed=options.seed,
        log=LogResult(counted.writes, counted.flushes, counted.bytes, counted.promises),
        states=StatesResult(
            possible=exploration.possible,
            distinct=exploration.distinct,
            explored=exploration.explored,
            decided_by=DecidedBy(
                by[How.CHECK], by[How.SAME_IMAGE], by[How.SAME_READS], by[How.SAME_TREE]
            ),
            coverage=exploration.coverage,
        ),
        properties={
            name.value: PropertyResult(checked, broken)
            for name, (checked, broken) in exploration.properties.items()
            if name in options.properties
        },
        findings=[case.finding for case in cases],
        seconds=Seconds(),
        inconclusive=len(exploration.inconclusive),
        flushes_cost=cost,
        disturbances=[each.kind.value for each in options.disturbances],
    )

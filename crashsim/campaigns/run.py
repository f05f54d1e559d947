"""`crashsim run` as a function: record, explore, shrink, explain."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from crashsim.campaigns.explaining import Explainer, Snapshots
from crashsim.campaigns.faulty import fault_result
from crashsim.campaigns.findings import Case, make_cases
from crashsim.campaigns.nested import Nesting
from crashsim.campaigns.nested_result import states_result
from crashsim.campaigns.options import Progress, RunOptions, no_progress
from crashsim.campaigns.prepared_machine import with_payload
from crashsim.campaigns.recorded import Recorded
from crashsim.campaigns.recording import open_target, record_target
from crashsim.campaigns.recovery_target import check_can_nest
from crashsim.campaigns.results import (
    LogResult,
    MachineResult,
    PropertyResult,
    RunResult,
    Seconds,
)
from crashsim.campaigns.targets import Target
from crashsim.disk.log import Log
from crashsim.explore.engine import LocalEngine
from crashsim.explore.exploration import Exploration
from crashsim.explore.exploring import Budget, explore
from crashsim.explore.verdict import PRUNINGS
from crashsim.machines.images.build import BuildProgress
from crashsim.machines.images.recipe import ImageSpec
from crashsim.machines.protocol import Machine
from crashsim.machines.select import choose_machine
from crashsim.workloads.figures import figures
from crashsim.workloads.git import GitWorkload

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
    if options.nested is not None:
        check_can_nest(options.filesystem, machine)
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
                LocalEngine(
                    decider,
                    lambda: recorded.recoverer(machine),
                    # Guests that share a kernel, and its complaints, take turns.
                    1 if machine.info.records else options.jobs,
                ),
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
        if options.nested is not None:
            nesting = Nesting(recorded, exploration, target, options, machine, directory, progress)
            with watch.phase("nested"):
                nested, more = nesting.run(options.nested)
            cases = (*cases, *more)
            findings = [case.finding for case in cases]
            result = msgspec.structs.replace(result, nested=nested, findings=findings)
        if options.fault is not None:
            told = fault_result(
                options.fault, options, recorded, decider, machine, directory / RECORDING
            )
            result = msgspec.structs.replace(result, fault=told)
    result = msgspec.structs.replace(result, seconds=watch.result())
    return RunOutcome(result, cases, target.oracle, target.payload, directory)


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
    return RunResult(
        target=target.name,
        fs=options.filesystem.spelling,
        fsync=target.options.fsync,
        method=target.options.method,
        machine=MachineResult.of(machine.info),
        seed=options.seed,
        log=LogResult(counted.writes, counted.flushes, counted.bytes, counted.promises),
        states=states_result(exploration),
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

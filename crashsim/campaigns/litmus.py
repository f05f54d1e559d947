"""`crashsim litmus` as a function: which outcomes small tests have on real filesystems.

All tests of a filesystem share one recording. Each run of a test has a window of the log of its
own, between its `begin` and `end` marks, and each window is explored with the same budget: so a
short test is looked at as closely as a long one.
"""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

from crashsim.campaigns.litmus_model import AFTER, EVER, allowed_outcomes, model_of
from crashsim.campaigns.litmus_result import (
    Example,
    LitmusFilesystemResult,
    LitmusResult,
    LitmusTestResult,
    SeenOutcome,
    UnseenOutcome,
)
from crashsim.campaigns.options import Progress, no_progress
from crashsim.campaigns.results import MachineResult, TornResult
from crashsim.disk.image import ImageIndex
from crashsim.disk.profile import DEFAULT_PROFILE
from crashsim.disk.state import CrashState
from crashsim.errors import InfrastructureError
from crashsim.explore.cuts import Cuts, meaningful_cuts
from crashsim.explore.deciding import Decider
from crashsim.explore.engine import LocalEngine
from crashsim.explore.exploration import UNRECOVERABLE_RULES, simplicity
from crashsim.explore.guests import GuestRecoverer
from crashsim.explore.order import round_robin
from crashsim.explore.schedule import Schedule
from crashsim.explore.timeline import Timeline
from crashsim.explore.verdict import DecidedBy
from crashsim.machines.filesystems import Filesystem
from crashsim.machines.protocol import Machine
from crashsim.model.persistence import Model
from crashsim.oracles.litmus import LitmusObserver
from crashsim.oracles.outcomes import UNREADABLE
from crashsim.oracles.protocol import Property, Violation
from crashsim.workloads.litmus import BEGIN, DONE, END, LitmusWorkload, Variant, variants
from crashsim.workloads.litmus_interpreter import OTHERS
from crashsim.workloads.litmus_tests import Litmus
from crashsim.workloads.protocol import WorkloadFailed
from crashsim.workloads.record import record

SLOT = 0
_STAGES_OF = {Property.ATOMIC: (EVER,), Property.DURABLE: (EVER, AFTER)}


class CallFailed(InfrastructureError):
    """A call of a litmus test failed in the guest: its kernel lacks it, or its disk is full."""


@dataclass(frozen=True, kw_only=True)
class LitmusOptions:
    """How to run litmus tests.

    :ivar states: crash states of each run that a schedule chooses, beside those that are looked at
        in any case; None: every bounded strategy to its end.
    :ivar jobs: filesystems side by side, one guest each.
    """

    states: int | None = 24
    seed: int = 0
    jobs: int = 2


@dataclass
class _Seen:
    """What is known of one outcome of one test at one stage."""

    alone: int = 0
    disturbed: int = 0
    simplest: tuple[CrashState, str] | None = None

    def add(self, state: CrashState, variant: Variant) -> None:
        if variant.disturbed:
            self.disturbed += 1
        else:
            self.alone += 1
        if self.simplest is None or simplicity(state) < simplicity(self.simplest[0]):
            self.simplest = state, variant.name


@dataclass
class Tally:
    """What was observed on a filesystem.

    :ivar variants: by name.
    :ivar damaged: states with a torn write, and a file that could not be read. No model tells of
        metadata that is torn; one that the filesystem notices as it mounts is `unmountable`.
    """

    variants: dict[str, Variant]
    seen: dict[tuple[str, str, str], _Seen] = field(default_factory=dict)
    decided_by: Counter[DecidedBy] = field(default_factory=Counter)
    unmountable: int = 0
    damaged: int = 0
    inconclusive: int = 0

    def add(self, state: CrashState, observations: Sequence[Violation]) -> None:
        """Count a state's observations (`LitmusObserver`)."""
        for each in observations:
            if each.rule in UNRECOVERABLE_RULES:
                self.unmountable += 1
                continue
            if state.torn and UNREADABLE in each.rule:
                self.damaged += 1
                continue
            test, _, variant = each.subject.partition(" ")
            for stage in _STAGES_OF[each.property]:
                seen = self.seen.setdefault((test, stage, each.rule), _Seen())
                seen.add(state, self.variants[variant])


def run_litmus(
    machine: Machine,
    filesystems: Sequence[Filesystem],
    tests: Sequence[Litmus],
    directory: Path,
    options: LitmusOptions,
    progress: Progress = no_progress,
) -> LitmusResult:
    """Record and explore the tests on each filesystem.

    :param directory: for the recordings, one directory a filesystem, none of them there yet.

    Raises what `run_filesystem` raises.
    """
    progress("litmus", 0, len(filesystems))

    def one(filesystem: Filesystem) -> LitmusFilesystemResult:
        place = directory / _file_name(filesystem)
        return run_filesystem(machine, filesystem, tests, place, options, progress)

    with ThreadPoolExecutor(options.jobs, thread_name_prefix="litmus") as pool:
        futures = [pool.submit(one, filesystem) for filesystem in filesystems]
        try:
            for done, finished in enumerate(as_completed(futures), 1):
                finished.result()
                progress("litmus", done, len(filesystems))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    results = [future.result() for future in futures]
    info = machine.info
    return LitmusResult(
        machine=MachineResult.of(info),
        seed=options.seed,
        states_per_run=options.states,
        filesystems=results,
    )


def run_filesystem(
    machine: Machine,
    filesystem: Filesystem,
    tests: Sequence[Litmus],
    directory: Path,
    options: LitmusOptions,
    progress: Progress = no_progress,
) -> LitmusFilesystemResult:
    """Record the tests on one filesystem, explore them, and compare with its model.

    Raises CallFailed, what `record` raises, and InfrastructureError when the machinery fails.
    """
    started = time.perf_counter()
    workload = LitmusWorkload(tuple(tests), filesystem.fstype)
    try:
        recording = record(machine, workload, filesystem, directory, seed=options.seed)
    except WorkloadFailed as error:
        raise CallFailed(f"the tests do not run on {filesystem.spelling}: {error}") from error
    tally = Tally({variant.name: variant for variant in variants(filesystem.fstype)})
    with recording.log() as log:
        images, timeline = ImageIndex(log), Timeline.of(log, DEFAULT_PROFILE)
        decider = Decider(images, timeline, LitmusObserver({test.name: test for test in tests}))
        mount = filesystem.mount(SLOT)
        engine = LocalEngine(
            decider, lambda: GuestRecoverer(machine, images, mount, exclude=(OTHERS,))
        )
        windows = _windows(timeline, images, options)
        total = len(workload.runs) * (3 + options.states) if options.states else 0
        states = round_robin(windows)
        for _, state, verdict in engine.decide_all(states, None):
            tally.decided_by[verdict.decided_by] += 1
            tally.inconclusive += bool(verdict.inconclusive)
            tally.add(state, verdict.violations)
            progress(filesystem.spelling, tally.decided_by.total(), total)
    model = model_of(filesystem.spelling)
    return LitmusFilesystemResult(
        fs=filesystem.spelling,
        model=None if model is None else model.name,
        tests=[compare(test, tally, model) for test in tests],
        runs=len(workload.runs),
        states=tally.decided_by.total(),
        recovered=tally.decided_by[DecidedBy.CHECK] + tally.decided_by[DecidedBy.SAME_TREE],
        unmountable=tally.unmountable,
        damaged=tally.damaged,
        inconclusive=tally.inconclusive,
        seconds=time.perf_counter() - started,
    )


def _windows(
    timeline: Timeline, images: ImageIndex, options: LitmusOptions
) -> Iterator[Iterator[CrashState]]:
    """The crash states of each run's part of the log.

    What a program may count on when it is done shows best just then, and at the end: those states
    come first, so that no budget leaves them out.
    """
    cuts = meaningful_cuts(timeline, lambda cut: images.identity(CrashState(cut)))
    begin = done = 0
    for mark, text in zip(timeline.promise_positions.tolist(), timeline.promises, strict=True):
        word = text.partition(" ")[0]
        if word == BEGIN:
            begin = mark
        elif word == DONE:
            done = mark + 1
        elif word == END:
            inside = (cuts.positions > begin) & (cuts.positions <= mark)
            window = Cuts(cuts.positions[inside], cuts.peaks[inside], cuts.promised[inside])
            first = (
                CrashState(done),
                CrashState(done, frozenset(timeline.pending(done).tolist())),
                CrashState(mark),
            )
            schedule = Schedule(
                timeline, window, DEFAULT_PROFILE.atomic_unit_bytes, options.seed, options.states
            )
            yield chain(first, schedule)


def compare(test: Litmus, tally: Tally, model: Model | None) -> LitmusTestResult:
    """Hold a model to what was observed: what it forbids, and what it allows for nothing."""
    allowed = None if model is None else allowed_outcomes(test, model)
    seen: list[SeenOutcome] = []
    for (name, stage, outcome), found in sorted(tally.seen.items()):
        if name == test.name and found.simplest is not None:
            state, variant = found.simplest
            legal = None if allowed is None else outcome in allowed[stage]
            example = Example(
                variant,
                state.cut,
                sorted(state.dropped),
                [TornResult(each.write, list(each.kept_units)) for each in sorted(state.torn)],
            )
            counts = found.alone, found.disturbed
            seen.append(SeenOutcome(stage, outcome, *counts, legal, example))
    known = {(each.stage, each.outcome) for each in seen}
    return LitmusTestResult(
        name=test.name,
        question=test.question,
        setup=list(test.setup),
        calls=list(test.run),
        seen=sorted(seen, key=lambda each: (each.stage != EVER, each.outcome)),
        unseen=[
            UnseenOutcome(stage, outcome)
            for stage, outcomes in (allowed or {}).items()
            for outcome in sorted(outcomes)
            if (stage, outcome) not in known
        ],
    )


def _file_name(filesystem: Filesystem) -> str:
    return "".join(c if c.isalnum() else "-" for c in filesystem.spelling)

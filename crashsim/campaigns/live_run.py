"""A run with live cuts, from its options to its result."""

from collections import Counter
from dataclasses import dataclass, replace

import msgspec

from crashsim.campaigns.cut_at import CutAt
from crashsim.campaigns.findings import Case
from crashsim.campaigns.live import Endurance
from crashsim.campaigns.lives import LivePlan, plan_life
from crashsim.campaigns.options import Progress, RunOptions, no_progress
from crashsim.campaigns.results import (
    DecidedBy,
    LiveResult,
    LogResult,
    MachineResult,
    PropertyResult,
    RunResult,
    Seconds,
    StatesResult,
)
from crashsim.campaigns.run import (
    RunOutcome,
    Stopwatch,
    new_directory,
    prepare_machine,
    run_name,
)
from crashsim.campaigns.targets import Target, git_oracle
from crashsim.errors import UsageError
from crashsim.explore.exploration import property_counts
from crashsim.machines.protocol import Machine
from crashsim.oracles.protocol import Property
from crashsim.workloads.git import GitWorkload
from crashsim.workloads.impl import with_bytecode


class CannotLiveOn(UsageError):
    """The target has no workload that can go on after a power cut."""


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """How often, and where, the power is cut.

    :ivar sequence: of `workloads.lives.SEQUENCES`.
    """

    cuts: int
    cut_at: CutAt
    sequence: str = "default"


def run_live(
    target: Target,
    options: RunOptions,
    live: LiveOptions,
    progress: Progress = no_progress,
    machine: Machine | None = None,
) -> RunOutcome:
    """Live through `live.cuts` power cuts with one repository.

    Raises UsageError for input that makes no sense, and InfrastructureError when the machinery
    fails: there is no verdict then, and what was recorded stays in the run's directory.
    """
    if not isinstance(target.workload, GitWorkload):
        raise CannotLiveOn("live cuts need a workload that can go on: --target git or impl")
    plan = LivePlan(target.workload, target, live.sequence, live.cut_at, options.seed)
    plan_life(plan, 1, fresh=True)  # so that what no life has is told before anything starts
    watch = Stopwatch()
    with watch.phase("boot"):
        machine = machine or prepare_machine(options, target.payload, progress)
        with machine.start() as guest:
            plan = replace(plan, workload=with_bytecode(plan.workload, guest))
    directory = new_directory(options.out, f"live-{run_name(target, options)}")
    endurance = Endurance(plan, options, machine, directory, progress)
    with watch.phase("record"):
        endurance.run(live.cuts)
    cases = _with_counts(endurance)
    result = _result(target, options, live, machine, endurance, cases)
    result = msgspec.structs.replace(result, seconds=watch.result())
    return RunOutcome(result, cases, git_oracle([]), target.payload, directory)


def _with_counts(endurance: Endurance) -> tuple[Case, ...]:
    """The cases, each with the number of lives that showed its kind."""
    return tuple(
        Case(
            msgspec.structs.replace(case.finding, states=endurance.shown[kind]),
            case.recording,
            case.evidence,
        )
        for kind, case in endurance.cases.items()
    )


def _result(
    target: Target,
    options: RunOptions,
    live: LiveOptions,
    machine: Machine,
    endurance: Endurance,
    cases: tuple[Case, ...],
) -> RunResult:
    checked = endurance.verdicts
    counts = property_counts(checked, Property)
    return RunResult(
        target=target.name,
        fs=options.filesystem.spelling,
        fsync=target.options.fsync,
        method=target.options.method,
        machine=MachineResult.of(machine.info),
        seed=options.seed,
        log=_sent(endurance),
        states=StatesResult(
            possible=None,
            distinct=len(checked),
            explored=len(checked),
            decided_by=DecidedBy(check=len(checked)),
            coverage=f"one crash state after each of {len(checked):,} lives, "
            f"torn at {options.profile.atomic_unit_bytes}",
        ),
        properties={
            name.value: PropertyResult(seen, broken)
            for name, (seen, broken) in counts.items()
            if name in options.properties
        },
        findings=[case.finding for case in cases],
        seconds=Seconds(),
        inconclusive=len(endurance.inconclusive),
        disturbances=[each.kind.value for each in options.disturbances],
        live=_live_result(live, endurance),
    )


def _sent(endurance: Endurance) -> LogResult:
    sent = [note.sent for note in endurance.notes]
    return LogResult(
        sum(each.writes for each in sent),
        sum(each.flushes for each in sent),
        sum(each.bytes for each in sent),
        sum(each.marks for each in sent),
    )


def _live_result(live: LiveOptions, endurance: Endurance) -> LiveResult:
    notes = endurance.notes
    return LiveResult(
        cut_at=live.cut_at.spelling,
        sequence=live.sequence,
        lives=len(notes),
        cuts=len(notes),
        repositories=endurance.repositories,
        promises=sum(note.promises for note in notes),
        promises_held=sum(note.held for note in notes),
        lives_with_loss=sum(note.held < note.promises for note in notes),
        deepest_loss=max((note.promises - note.held for note in notes), default=0),
        earlier_lost=endurance.earlier_lost,
        tidied=dict(sorted(Counter(why for note in notes for why in note.tidied).items())),
        each=notes,
    )

"""`crashsim validate` as a function: is this fsync method what it claims to be?

First the model: every short sequence of the store's operations, every crash that a filesystem's
persistence model allows. Then real kernels: the store's workloads, recorded and crashed in guests.
A claim stands only where neither breaks it; the result says how much was looked at.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from crashsim.campaigns.matrix import Cell, run_matrix
from crashsim.campaigns.methods import Method
from crashsim.campaigns.options import Progress, RunOptions, no_progress
from crashsim.campaigns.results import RunResult
from crashsim.campaigns.run import RunOutcome
from crashsim.campaigns.simulated_judge import REPOSITORY, Trees
from crashsim.campaigns.simulated_store import (
    ModelFailure,
    ModelVerdict,
    SimulatedRun,
    base_repository,
    explore_run,
    run_operations,
    sequences,
)
from crashsim.campaigns.targets import CommandChoice, choose_target
from crashsim.campaigns.validation import (
    Counterexample,
    FilesystemValidation,
    ModelResult,
    OperationCost,
    ValidationResult,
    broken_by_the_method,
)
from crashsim.errors import UsageError
from crashsim.machines.filesystems import parse_filesystem
from crashsim.machines.protocol import Machine
from crashsim.model.models import model_named
from crashsim.model.operations import Promise, Scope, Sync
from crashsim.model.tree import Directory, Tree
from crashsim.oracles.protocol import Property
from crashsim.workloads.registry import TargetOptions
from crashsim.workloads.simulated import OPERATIONS, PROGRAM, Call, StoreOperation, program

POSIX = "posix"
"""A filesystem that keeps what the standard promises, and no more; there is no such kernel."""

FILESYSTEMS_WITH_KERNELS = ("ext4", "xfs", "btrfs", "f2fs")

MODELS_OF_FILESYSTEMS = {
    "ext4": "ext4-ordered",
    "xfs": "xfs",
    "btrfs": "btrfs",
    "f2fs": "f2fs",
    POSIX: "posix",
    "ntfs": "ntfs",
    "apfs": "apfs",
}
"""The filesystems that claims are about, and the persistence model of each one's default mount."""


class NoSuchDirectory(UsageError):
    """What is to be a filesystem of its own is no directory of a repository."""


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """How much the model looks at.

    :ivar length: sequences of up to so many operations.
    :ivar states_limit: crash states of one sequence; more are sampled.
    :ivar split: a directory of the repository that is a filesystem of its own, of the same kind,
        on a device of its own (`objects`); empty: there is none.
    """

    operations: Sequence[StoreOperation] = tuple(OPERATIONS.values())
    length: int = 1
    states_limit: int = 1_000
    seed: int = 0
    split: str = ""


def filesystems_of(method: Method) -> list[str]:
    """Those that a method is held against: Linux', and what else it claims something of."""
    looked_at = (*FILESYSTEMS_WITH_KERNELS, POSIX)
    return [name for name in MODELS_OF_FILESYSTEMS if name in looked_at or method.claims.get(name)]


def validate_in_model(
    method: Method,
    filesystems: Iterable[str],
    options: ModelOptions,
    progress: Progress = no_progress,
) -> ValidationResult:
    """Hold a method's claims against the persistence models. Raises OperationFailed."""
    started = time.perf_counter()
    call = program(PROGRAM)
    trees = Trees()
    runs = method_runs(method, call, trees, options)
    checked = list(filesystems)
    results = []
    for done, filesystem in enumerate(checked):
        progress(f"model of {filesystem}", done, len(checked))
        verdict = crash_runs(runs, MODELS_OF_FILESYSTEMS[filesystem], options)
        results.append(_judged(filesystem, method, _model_result(verdict, len(runs)), []))
    return ValidationResult(
        method.name,
        results,
        [operation_cost(run) for run in runs if len(run.operations) == 1],
        options.seed,
        time.perf_counter() - started,
        split=options.split,
    )


def validate_on_kernels(
    method: Method,
    filesystems: Iterable[str],
    sequences: Iterable[str],
    options: RunOptions,
    machine: Machine,
    finished: Callable[[RunOutcome], RunResult] = lambda outcome: outcome.result,
    progress: Progress = no_progress,
) -> list[RunResult]:
    """Record and crash the store's workloads in guests, on each filesystem that has a kernel.

    :param sequences: of git steps (`git_steps.SEQUENCES`).
    :param options: of every run but for its filesystem; `bare` is enough to judge.
    :param finished: as of `run_matrix`.

    Raises UnknownSequence and what `run_matrix` raises.
    """
    cells = [
        Cell(
            choose_target(
                "impl",
                None,
                None,
                CommandChoice(),
                TargetOptions(
                    fsync="all", method=method.setting, sequence=sequence, seed=options.seed
                ),
            ),
            parse_filesystem(filesystem),
        )
        for filesystem in filesystems
        if filesystem in FILESYSTEMS_WITH_KERNELS
        for sequence in sequences
    ]
    return run_matrix(cells, options, machine, progress, finished)


def with_runs(
    result: ValidationResult, method: Method, runs: Sequence[RunResult], seconds: float
) -> ValidationResult:
    """The result, with what runs on real kernels showed, each on its filesystem."""
    return ValidationResult(
        result.method,
        [
            _judged(
                each.fs,
                method,
                each.model,
                [run for run in runs if run.fs.partition(":")[0] == each.fs],
            )
            for each in result.filesystems
        ],
        result.cost,
        result.seed,
        seconds,
    )


def method_runs(
    method: Method, call: Call, trees: Trees, options: ModelOptions
) -> list[SimulatedRun]:
    """Every sequence of operations, made with the method."""
    base, settings = base_repository(call), sync_settings(method)
    mounts = (_mount_point(base, options.split),) if options.split else ()
    return [
        run_operations(call, base, settings, operations, trees, crash_in_last=True, mounts=mounts)
        for length in range(1, options.length + 1)
        for operations in sequences(options.operations, length)
    ]


def _mount_point(base: Tree, directory: str) -> str:
    path = f"{REPOSITORY}/{directory}"
    if not isinstance(base.nodes.get(path), Directory):
        raise NoSuchDirectory(f"the repository has no directory {directory!r}: try objects")
    return path


def sync_settings(method: Method) -> tuple[str, ...]:
    """The settings under which a method's claims are to hold: everything synced, its way."""
    return "core.fsync=all", f"core.fsyncMethod={method.setting}"


def crash_runs(
    runs: Iterable[SimulatedRun], model_name: str, options: ModelOptions
) -> ModelVerdict:
    """Crash all of them under one model."""
    model = model_named(model_name)
    verdict = ModelVerdict(model_name)
    for run in runs:
        explore_run(run, model, verdict, states_limit=options.states_limit, seed=options.seed)
    return verdict


def operation_cost(run: SimulatedRun) -> OperationCost:
    """What the only operation of a run cost."""
    made = [each for each in run.log.operations if each.number >= run.since]
    scopes = [each.scope for each in made if isinstance(each, Sync)]
    return OperationCost(
        run.operations[0].name,
        flushes=scopes.count(Scope.FILE) + scopes.count(Scope.DATA),
        writeouts=scopes.count(Scope.PAGES),
        filesystem_syncs=scopes.count(Scope.FILESYSTEM),
        calls=sum(not isinstance(each, Promise) for each in made),
    )


def _model_result(verdict: ModelVerdict, sequences_run: int) -> ModelResult:
    order = list(Property)
    failures = sorted(
        verdict.failures.values(),
        key=lambda each: (order.index(each.violation.property), each.violation.rule),
    )
    return ModelResult(
        verdict.model,
        sequences_run,
        verdict.possible,
        verdict.distinct,
        {name.value: count for name, count in verdict.broken.items()},
        [_counterexample(failure) for failure in failures],
    )


def _counterexample(failure: ModelFailure) -> Counterexample:
    return Counterexample(
        failure.violation.property.value,
        failure.violation.rule,
        failure.violation.detail,
        [operation.name for operation in failure.run.operations],
        failure.state.describe().splitlines(),
        len(failure.state.lost),
    )


def _judged(
    filesystem: str, method: Method, model: ModelResult, runs: list[RunResult]
) -> FilesystemValidation:
    broken = {name for name, count in model.broken.items() if count}
    for run in runs:
        broken |= broken_by_the_method(run)
    claims = [name for name in Property if name in method.claims.get(filesystem, frozenset())]
    return FilesystemValidation(
        filesystem,
        [name.value for name in claims],
        model,
        runs,
        holds=[name.value for name in Property if name.value not in broken],
        refuted=[name.value for name in claims if name.value in broken],
    )

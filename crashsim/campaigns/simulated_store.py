"""The store under a persistence model: every crash of a few operations, judged as git."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

from crashsim.campaigns.simulated_judge import REPOSITORY, Judge, Trees
from crashsim.model import tree as model_tree
from crashsim.model.bystander import WithBystander
from crashsim.model.operations import Log
from crashsim.model.persistence import Model
from crashsim.model.simulated import Simulated
from crashsim.model.states import CrashState, crash_states
from crashsim.oracles.git import encode_promise, snapshot
from crashsim.oracles.protocol import Property, Violation
from crashsim.workloads.simulated import Call, StoreMachine, StoreOperation

STATES_LIMIT = 4_000
"""Of one log: up to here all states, beyond a sample of so many."""


@dataclass(frozen=True)
class SimulatedRun:
    """What operations did on the simulated machine.

    :ivar log: with one promise after each operation.
    :ivar since: number of the first operation of the log that is to be crashed.
    :ivar commands: of each command the number of its first operation, and its name, in order.
    :ivar last: the numbers of what was done during the last of the operations.
    :ivar foreign: the numbers of the syncs of a bystander.
    :ivar judge: knows the promises, and what it has judged before.
    """

    operations: tuple[StoreOperation, ...]
    log: Log
    since: int
    commands: tuple[tuple[int, str], ...]
    last: range
    foreign: frozenset[int]
    judge: Judge = field(repr=False, compare=False)


@dataclass(frozen=True)
class ModelFailure:
    """One kind of violation, by its simplest crash state."""

    run: SimulatedRun
    model: str
    violation: Violation
    state: CrashState

    @property
    def size(self) -> tuple[int, int, int]:
        """Simpler is smaller: operations, losses, the cut."""
        return len(self.run.operations), len(self.state.lost), self.state.cut


@dataclass
class ModelVerdict:
    """What exploring runs under one model came to.

    :ivar broken: property -> number of distinct states that violate it.
    :ivar failures: (property, rule) -> the simplest.
    """

    model: str
    possible: int = 0
    distinct: int = 0
    broken: dict[Property, int] = field(default_factory=dict)
    failures: dict[tuple[Property, str], ModelFailure] = field(default_factory=dict)


def base_repository(
    call: Call, ref_format: str = "files", object_format: str = "sha1"
) -> model_tree.Tree:
    """A filesystem with a repository of one commit, to be another machine's durable base."""
    store = StoreMachine(call)
    store.set_up(ref_format=ref_format, object_format=object_format)
    return store.machine.tree()


def run_operations(
    call: Call,
    base: model_tree.Tree,
    settings: Sequence[str],
    operations: Sequence[StoreOperation],
    trees: Trees,
    *,
    crash_in_last: bool = False,
    bystander: bool = False,
    keeps_local_changes: bool = False,
    mounts: tuple[str, ...] = (),
) -> SimulatedRun:
    """Make the operations one after the other, each with its promise.

    :param crash_in_last: only crashes during and after the last operation are of interest: those
        before are crashes of the shorter sequence.
    :param bystander: meanwhile another program syncs directories: see `WithBystander`.
    :param keeps_local_changes: what is in the working tree, without the stash that the last
        operation makes or applies, must be there or in that stash.
    :param mounts: directories of `base` that are filesystems of their own.

    Raises OperationFailed.
    """
    kind = WithBystander if bystander else Simulated
    store = StoreMachine(call, settings, base, start=partial(kind, mounts=mounts))
    machine = store.machine
    promise_state(store, trees, "base")
    first = 0
    for number, operation in enumerate(operations, 1):
        first = len(machine.operations)
        store.do(operation)
        promise_state(store, trees, f"{number}: {operation.name}", operation)
    log, last = machine.log, range(first, len(machine.operations))
    judge = Judge(log, trees, (base, machine.tree()) if keeps_local_changes else None)
    return SimulatedRun(
        tuple(operations),
        log,
        first if crash_in_last else 0,
        tuple(store.commands),
        last,
        frozenset(machine.bystander) if isinstance(machine, WithBystander) else frozenset(),
        judge,
    )


def promise_state(
    store: StoreMachine, trees: Trees, name: str, operation: StoreOperation | None = None
) -> None:
    """Promise what the repository holds now, `operation` having led there.

    Raises DamagedBeforeCrash for a repository that cannot be read.
    """
    text = encode_promise(
        name,
        snapshot(trees.of(store.machine.tree()), REPOSITORY),
        unnoted_between=() if operation is None else operation.unnoted_between,
        one_transaction=operation is not None and operation.one_transaction,
    )
    store.machine.promise(text)


def explore_run(
    run: SimulatedRun,
    model: Model,
    verdict: ModelVerdict,
    *,
    log: Log | None = None,
    states_limit: int = STATES_LIMIT,
    seed: int = 0,
) -> None:
    """Judge the crash states of a run under a model; what comes of it is added to `verdict`.

    :param log: another log than the run's own: with a sync taken out.
    """
    states = crash_states(log or run.log, model, limit=states_limit, seed=seed, since=run.since)
    for state in states:
        found = run.judge(state)
        for name in {violation.property for violation in found}:
            verdict.broken[name] = verdict.broken.get(name, 0) + 1
        for violation in found:
            _keep_simplest(verdict, ModelFailure(run, model.name, violation, state))
    verdict.possible += states.possible
    verdict.distinct += states.distinct


def _keep_simplest(verdict: ModelVerdict, failure: ModelFailure) -> None:
    kind = failure.violation.property, failure.violation.rule
    known = verdict.failures.get(kind)
    if known is None or failure.size < known.size:
        verdict.failures[kind] = failure


def sequences(
    operations: Sequence[StoreOperation], length: int
) -> Iterator[tuple[StoreOperation, ...]]:
    """Every sequence of so many operations that makes sense, in a fixed order."""
    if length == 0:
        yield ()
        return
    for before in sequences(operations, length - 1):
        done = {each.name for each in before}
        for operation in operations:
            again = operation.once and operation.name in done
            if not again and (not operation.needs or done & set(operation.needs)):
                yield (*before, operation)

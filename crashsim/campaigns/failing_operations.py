"""Every command of the store that writes, each on a repository that is ready for it."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from crashsim.campaigns.failing_calls import Prepared, Trial, faults, prepare
from crashsim.campaigns.methods import Method
from crashsim.campaigns.options import Progress, no_progress
from crashsim.campaigns.simulated_judge import Trees
from crashsim.campaigns.simulated_store import base_repository
from crashsim.model.tree import Tree
from crashsim.workloads.simulated import (
    OPERATIONS,
    PROGRAM,
    Call,
    Command,
    StoreMachine,
    StoreOperation,
    operation,
    program,
)

_PACKED_TWICE = (
    OPERATIONS["repack"],
    OPERATIONS["commit"],
    operation("repack-new", "repack -q -d", "multi-pack-index write --no-progress"),
)
_ON_A_BRANCH = (operation("branch", "branch other"), OPERATIONS["commit"])


@dataclass(frozen=True, slots=True)
class Case:
    """An operation, and what is done before it.

    :ivar takes_pack: its standard input is a pack of objects that the repository does not have.
    """

    operation: StoreOperation
    before: Sequence[StoreOperation] = ()
    ref_format: str = "files"
    takes_pack: bool = False

    @property
    def name(self) -> str:
        """For reports."""
        suffix = "" if self.ref_format == "files" else f" ({self.ref_format})"
        return self.operation.name + suffix


def _cases() -> Iterator[Case]:
    stash = (OPERATIONS["stash"],)
    for each in OPERATIONS.values():
        yield Case(each, stash if each.needs else ())
    yield Case(operation("midx-repack", "multi-pack-index repack --no-progress"), _PACKED_TWICE)
    yield Case(
        operation("midx-expire", "multi-pack-index expire --no-progress"),
        (*_PACKED_TWICE, operation("midx-repack", "multi-pack-index repack --no-progress")),
    )
    yield Case(operation("unpack-objects", "unpack-objects -q"), takes_pack=True)
    yield Case(operation("index-pack", "index-pack --stdin"), takes_pack=True)
    yield Case(operation("switch", "switch -q other"), _ON_A_BRANCH)
    yield Case(operation("reset", "reset -q --hard other"), _ON_A_BRANCH)
    yield Case(operation("delete-branch", "branch -q -D other"), _ON_A_BRANCH)
    yield Case(
        operation(
            "reflog-expire", "reflog expire --expire=all --all", unnoted_between=("reflogs",)
        ),
        _ON_A_BRANCH,
    )
    yield Case(operation("prune", "prune --expire=now"), (OPERATIONS["add"],))
    for name in ("commit", "update-refs", "tag", "pack-refs", "stash", "stash-pop"):
        each = OPERATIONS[name]
        yield Case(each, stash if each.needs else (), ref_format="reftable")


CASES = tuple(_cases())


def prepare_case(case: Case, call: Call, method: Method, trees: Trees) -> Prepared:
    """The case under one method, made once without any fault. Raises OperationFailed."""
    base = base_repository(call, case.ref_format)
    store = StoreMachine(call, base=base)
    for each in case.before:
        store.do(each)
    made = case.operation
    if case.takes_pack:
        given = _foreign_pack(call, base)
        made = replace(
            made, commands=tuple(replace(c, standard_input=given) for c in made.commands)
        )
    return prepare(case.name, call, method, store.machine.tree(), made, trees)


class OperationErrors(msgspec.Struct, frozen=True):
    """One operation under one method: how many calls it makes, and how many faults were tried."""

    name: str
    calls: int
    faults: int


class FailingCallsResult(msgspec.Struct, frozen=True):
    """Every fault of every operation; `wrong` has a line for each that was taken badly."""

    method: str
    operations: list[OperationErrors]
    wrong: list[str]
    seconds: float
    schema: str = "crashsim.failing-calls/1"


def fail_every_call(method: Method, progress: Progress = no_progress) -> FailingCallsResult:
    """Each call of each case, with each of its errors, once and lasting: some 50,000 trials."""
    started = time.perf_counter()
    call, trees = program(PROGRAM), Trees()
    operations, wrong = [], []
    for number, case in enumerate(CASES):
        progress(f"errors: {case.name}", number, len(CASES))
        prepared = prepare_case(case, call, method, trees)
        trial = Trial(call, method, prepared, trees)
        tried = list(faults(prepared, lasting=True))
        for fault in tried:
            wrong += [str(each) for each in trial.wrongs(fault)]
        operations.append(OperationErrors(case.name, len(prepared.calls), len(tried)))
    return FailingCallsResult(method.name, operations, wrong, time.perf_counter() - started)


def _foreign_pack(call: Call, base: Tree) -> bytes:
    """A pack of a repository that has gone on by one commit."""
    other = StoreMachine(call, base=base, seed=1)
    other.do(OPERATIONS["commit"])
    return other.run(Command(("pack-objects", "-q", "--all", "--stdout")))

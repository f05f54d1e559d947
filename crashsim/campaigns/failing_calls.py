"""The store when its system calls fail: every call of an operation, with every error it may give.

An operation is made once undisturbed, which says what it calls and what it leads to. Then it is
made again and again on a machine on which one of those calls fails, and judged:

- a failure is told: exit code ≠ 0, one line that names the error and the path; or the operation has
  taken effect all the same, whole;
- nothing is lost: every promise made before holds, references and the rest are old or new;
- nothing is left in the way: no lock and no temporary file, unless removing it is what failed;
- the next try works, and what it promises survives every crash that the method's claims cover: an
  fsync that fails has dropped its pages, so a second one is not to be believed.
"""

import contextlib
import os
import re
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from errno import errorcode
from itertools import chain

from crashsim.campaigns.methods import Method
from crashsim.campaigns.simulated_judge import REPOSITORY, Trees, judge, oracle_of
from crashsim.campaigns.simulated_store import promise_state
from crashsim.faults.call_errors import ERRORS, SHORT
from crashsim.faults.failing_machine import SHORT_WRITE, CallFault, CallMade, FailingMachine
from crashsim.model.lost_pages import after_reboot
from crashsim.model.models import MODELS
from crashsim.model.operations import Log, Promise
from crashsim.model.persistence import Model
from crashsim.model.states import crash_states
from crashsim.model.tree import Tree
from crashsim.oracles.git import GitOracle
from crashsim.oracles.protocol import Moment, Property, Violation
from crashsim.workloads.simulated import WORKTREE, Call, Command, StoreMachine, StoreOperation

GIT_DIRECTORY = f"{WORKTREE}/.git"
CRASH_MODELS = {"ext4": "ext4-ordered", "btrfs": "btrfs"}
"""The filesystems whose crashes are tried after a failure: a journal, and copies with log trees."""

REBOOT_CLAIMS = "ext4"
"""After a reboot without a power cut what a method claims with one must hold the more."""

_CLEANUP = frozenset({"unlink", "remove_directory"})
_LEFT_BEHIND = ("tmp_", "bulk_fsync_")


@dataclass(frozen=True)
class Prepared:
    """An operation on a repository that is ready for it, as it goes without any fault.

    :ivar settings: of every command.
    :ivar base: the durable filesystem before.
    :ivar calls: every system call that the operation makes, in order.
    :ivar promises: what held before it, and what holds after.
    """

    name: str
    operation: StoreOperation
    settings: tuple[str, ...]
    base: Tree
    calls: tuple[CallMade, ...]
    promises: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Wrong:
    """Something that must not be: what failed, and what came of it."""

    operation: str
    method: str
    fault: CallFault
    made: CallMade
    what: str

    def __str__(self) -> str:
        """For people, on one line."""
        lasting = ", and from then on" if self.fault.lasting else ""
        return (
            f"{self.operation} ({self.method}): call {self.fault.number}, {self.made.call} of "
            f"{self.made.path}: {error_name(self.fault.error)}{lasting}: {self.what}"
        )


def error_name(error: int) -> str:
    """`EIO`; `short` for a call that does less."""
    return "short" if error == SHORT_WRITE else errorcode[error]


def prepare(
    name: str,
    call: Call,
    method: Method,
    base: Tree,
    operation: StoreOperation,
    trees: Trees,
) -> Prepared:
    """Make the operation undisturbed. Raises OperationFailed."""
    settings = ("core.fsync=all", f"core.fsyncMethod={method.setting}")
    store, machine = _boot(call, settings, base)
    promise_state(store, trees, "base")
    store.write_files(operation.fresh, operation.changed)
    machine.arm(None)
    for command in operation.commands:
        store.run(command)
    calls = tuple(machine.calls)
    promise_state(store, trees, "after", operation)
    return Prepared(name, operation, settings, base, calls, _promises(machine))


def _boot(call: Call, settings: Sequence[str], base: Tree) -> tuple[StoreMachine, FailingMachine]:
    machine = FailingMachine(base)
    return StoreMachine(call, settings, base, start=lambda _: machine), machine


def _promises(machine: FailingMachine) -> tuple[str, ...]:
    return tuple(str(each.value) for each in machine.operations if isinstance(each, Promise))


def faults(prepared: Prepared, *, lasting: bool) -> Iterator[CallFault]:
    """Every fault of every call; a lasting one where it is the first of its error."""
    seen: set[int] = set()
    for number, (call, _) in enumerate(prepared.calls):
        short = (SHORT_WRITE,) if call in SHORT else ()
        for error in (*ERRORS[call], *short):
            yield CallFault(number, error)
            if lasting and error and error not in seen:
                seen.add(error)
            if lasting and error:
                yield CallFault(number, error, lasting=True)


class Trial:
    """Tries faults on one operation under one method."""

    def __init__(self, call: Call, method: Method, prepared: Prepared, trees: Trees) -> None:
        """Nothing is tried yet."""
        self._call = call
        self._method = method
        self._claims = method.claims.get(REBOOT_CLAIMS, frozenset())
        self._prepared = prepared
        self._trees = trees
        self._oracle = GitOracle(prepared.promises, REPOSITORY, WORKTREE, exercise_every=0)
        self._judged: dict[tuple[int, int], list[Violation]] = {}

    def wrongs(self, fault: CallFault, *, crashes: int = 0) -> list[Wrong]:
        """What is wrong with how the store takes a fault.

        :param crashes: after the next try, so many crash states are judged for each of
            CRASH_MODELS: a power cut when all was promised, and half as many at any time.
        """
        prepared = self._prepared
        store, machine = _boot(self._call, prepared.settings, prepared.base)
        promise_state(store, self._trees, "base")
        store.write_files(prepared.operation.fresh, prepared.operation.changed)
        machine.arm(fault)
        code, told = self._attempt(store)
        failed = list(machine.failed)
        machine.arm(None)
        found = list(self._told_wrong(fault, failed, code, told))
        found += self._state_wrong(machine, code)
        is_cleanup = fault.lasting or any(made.call in _CLEANUP for made in failed)
        if is_cleanup:
            _remove_locks(machine, GIT_DIRECTORY)
            _remove_named(machine, told)
        else:
            found += [f"left behind: {path}" for path in _left_behind(machine.tree())]
        if not found:
            found += self._next_wrong(store, machine, crashes)
        made = prepared.calls[fault.number]
        return [Wrong(prepared.name, self._method.name, fault, made, what) for what in found]

    def _attempt(self, store: StoreMachine) -> tuple[int, str]:
        """The operation's commands, up to the first that fails: its exit code, what it told."""
        told = ""
        for command in self._prepared.operation.commands:
            try:
                code, _, errors = store.attempt(command)
            except Exception as error:  # noqa: BLE001 - a traceback, whatever it is, is a finding
                return -1, f"{type(error).__name__}: {error}"
            told += errors
            if code != 0:
                return code, told
        return 0, told

    def _told_wrong(
        self, fault: CallFault, failed: Sequence[CallMade], code: int, told: str
    ) -> Iterator[str]:
        if code == -1:
            yield f"traceback: {told}"
        elif fault.error == SHORT_WRITE:
            if code != 0:
                yield f"exit code {code} for a short call: {told.strip()}"
        elif code != 0:
            last = told.strip().rpartition("\n")[2]
            named = any(made.path in last for made in failed)
            if os.strerror(fault.error) not in last or not named:
                yield f"exit code {code}, unclear: {told.strip()!r}"

    def _state_wrong(self, machine: FailingMachine, code: int) -> Iterator[str]:
        """What running programs see: all that was promised, and old or new."""
        tree = machine.tree()
        made = 2 if code == 0 else 1
        key = tree.digest, made
        if key not in self._judged:
            moment = Moment(self._prepared.promises[:made])
            self._judged[key] = self._oracle.judge(self._trees.of(tree), moment)
        for violation in self._judged[key]:
            # Names change one after the other: a failure between two tears what is no one change.
            if violation.property is not Property.ATOMIC or Property.ATOMIC in self._claims:
                yield f"exit code {code}, {_text(violation)}"

    def _next_wrong(
        self, store: StoreMachine, machine: FailingMachine, crashes: int
    ) -> Iterator[str]:
        """Try again, commit something; then the power may go."""
        self._attempt(store)
        store.write_files(1, 0)
        for words in (("add", "--all"), ("commit", "-q", "-m", "next")):
            code, _, errors = store.attempt(Command(words))
            if code != 0:
                yield f"then, {words[0]} exits with {code}: {errors.strip()}"
                return
        promise_state(store, self._trees, "next", replace(self._prepared.operation, name="next"))
        yield from self._reboot_wrong(machine)
        if not crashes:
            return
        for filesystem, model in CRASH_MODELS.items():
            claims = self._method.claims.get(filesystem, frozenset())
            yield from self._crash_wrong(machine.log, filesystem, MODELS[model], claims, crashes)

    def _reboot_wrong(self, machine: FailingMachine) -> Iterator[str]:
        """Everything was written back in time, but what the failed sync dropped."""
        tree = after_reboot(machine.log, machine.tree())
        promises = _promises(machine)
        oracle = GitOracle(promises, REPOSITORY, WORKTREE, exercise_every=0)
        for violation in oracle.judge(self._trees.of(tree), Moment(promises)):
            if violation.property in self._claims:
                yield f"then, a reboot: {_text(violation)}"

    def _crash_wrong(
        self,
        log: Log,
        filesystem: str,
        model: Model,
        claims: Collection[Property],
        crashes: int,
    ) -> Iterator[str]:
        oracle = oracle_of(log)
        at_the_end = crash_states(log, model, limit=crashes, since=log.operations[-1].number)
        for state in chain(at_the_end, crash_states(log, model, limit=crashes // 2)):
            for violation in judge(oracle, state, self._trees):
                if violation.property in claims:
                    lost = "; ".join(state.describe().splitlines())
                    yield f"then, a crash on {filesystem}: {_text(violation)}: {lost}"
                    return


def _text(violation: Violation) -> str:
    return f"{violation.property.value} ({violation.rule}): {violation.detail}"


def _left_behind(tree: Tree) -> Iterator[str]:
    """Locks and temporary files of the repository."""
    for path in tree.nodes:
        name = path.rpartition("/")[2]
        if path.startswith(f"{REPOSITORY}/") and (
            name.endswith(".lock") or name.startswith(_LEFT_BEHIND) or ".temp." in name
        ):
            yield path


_LEFT_OVER = re.compile(r"^warning: cannot remove (\S+): ", re.MULTILINE)


def _remove_named(machine: FailingMachine, told: str) -> None:
    """What the store said it could not remove itself: a person does it, once the disk is well."""
    for path in _LEFT_OVER.findall(told):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            machine.unlink(path)


def _remove_locks(machine: FailingMachine, directory: str) -> None:
    """As a person does who was told to."""
    for name in list(machine.list_directory(directory)):
        path = f"{directory}/{name}"
        if name.endswith(".lock"):
            machine.unlink(path)
        elif stat.S_ISDIR(machine.lstat(path).st_mode):
            _remove_locks(machine, path)

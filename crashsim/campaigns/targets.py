"""What is tested: a workload, the promises made on its behalf, and the oracle that judges it.

Workloads and oracles know nothing of each other; here they meet.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from crashsim.errors import UsageError
from crashsim.machines.tree import Tree
from crashsim.oracles.command import CommandOracle
from crashsim.oracles.git import GitOracle, encode_promise, snapshot
from crashsim.oracles.protocol import Oracle
from crashsim.workloads.command import CommandWorkload, command_workload
from crashsim.workloads.container import ContainerChoice, container_workload
from crashsim.workloads.git import GIT_DIRECTORY, REMOTE, REPOSITORY, GitWorkload
from crashsim.workloads.git_steps import GitStep, sequence
from crashsim.workloads.protocol import Step, Workload
from crashsim.workloads.registry import TargetOptions, make_target

CONTAINER_TARGET = "docker"
_FILE_KEYS = frozenset({"setup", "check", "check_timeout_seconds", "recover", "payload", "step"})

Promise = Callable[[str, Tree], str]
"""promise(step's name, tree after it) -> the text of the mark that is made on its behalf."""


class BadWorkloadFile(UsageError):
    """A `--workload` file that cannot be read as one."""


class BadOracle(UsageError):
    """The description of an oracle, in a recording or a bundle, makes no sense."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandChoice:
    """What the command line says about a command as workload.

    :ivar check: a string for the guest's `sh -c`; needed for any command.
    :ivar image: the container image that the target `docker` runs.
    :ivar volume: the path in its container that is on the crash disk.
    """

    setup: str | None = None
    recover: str | None = None
    check: str | None = None
    check_timeout_seconds: float = 20.0
    payload: Path | None = None
    image: Path | None = None
    volume: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """A workload with its oracle.

    :ivar oracle: how to judge, as JSON-able data: it goes into recordings and bundles, and
        `make_oracle` makes the oracle of it.
    :ivar promise: for workloads whose promises the recorder makes after each step.
    :ivar payload: a directory of the host that the check needs in the guest.
    :ivar recover: what a command does after a power cut, for the guest's `sh -c`.
    """

    workload: Workload
    oracle: Mapping[str, Any]
    promise: Promise | None = None
    payload: Path | None = None
    options: TargetOptions = field(default_factory=TargetOptions)
    recover: str | None = None

    @property
    def name(self) -> str:
        """As results name it."""
        return self.workload.name


def choose_target(
    target: str | None,
    workload_file: Path | None,
    command: Sequence[str] | None,
    choice: CommandChoice,
    options: TargetOptions,
) -> Target:
    """The target that the command line asks for; `git` where it names none.

    Raises UsageError where the parts do not fit together.
    """
    if target == CONTAINER_TARGET:
        return _container_target(command or (), choice)
    if choice.image or choice.volume:
        raise UsageError("--image and --volume go with --target docker")
    if command:
        return _command_target(
            command_workload(command, setup=choice.setup, payload=choice.payload), choice
        )
    if workload_file is not None:
        return _file_target(workload_file, choice)
    workload = make_target(target or "git", options)
    if choice.setup or choice.check or choice.payload or choice.recover:
        raise UsageError(
            "--setup, --check, --recover and --payload go with a command: crashsim run … -- COMMAND"
        )
    assert isinstance(workload, GitWorkload)
    return Target(
        workload,
        git_oracle([REMOTE]),
        promise=git_promise(sequence(workload.sequence), [REMOTE]),
        options=options,
    )


def git_oracle(others: Sequence[str]) -> Mapping[str, Any]:
    """How to judge the git workload's repository, and `others` on the same filesystem."""
    return {
        "kind": "git",
        "git_directory": GIT_DIRECTORY,
        "worktree": REPOSITORY,
        "others": list(others),
    }


def git_promise(taken: Sequence[GitStep], others: Sequence[str]) -> Promise:
    """What is promised after each step: what the repositories hold then."""
    steps = {step.name: step for step in taken}

    def promise(name: str, tree: Tree) -> str:
        step = steps.get(name)  # None for the set-up
        return encode_promise(
            name,
            snapshot(tree, GIT_DIRECTORY),
            unnoted_between=() if step is None else step.unnoted_between,
            one_transaction=step is not None and step.one_transaction,
            others={other: snapshot(tree, other) for other in others},
        )

    return promise


def make_oracle(description: Mapping[str, Any], marks: Sequence[str]) -> Oracle:
    """The oracle that a target described, for a recording with these marks.

    Descriptions come out of bundles, too: raises BadOracle for anything that is not one.
    """
    match description:
        case {
            "kind": "git",
            "git_directory": str(directory),
            "worktree": str(worktree),
            "others": list(others),
        } if all(isinstance(other, str) for other in others):
            return GitOracle(marks, git_dir=directory, worktree=worktree, others=others)
        case {
            "kind": "command",
            "check": str(check),
            "timeout_seconds": int() | float() as timeout,
        }:
            if not 0 < timeout <= 3600:
                raise BadOracle(f"a check's timeout of {timeout} s is out of bounds (up to 3600)")
            return CommandOracle(check, float(timeout))
    raise BadOracle(
        f"unknown oracle {str(dict(description))[:120]}: was it made by a newer crashsim?"
    )


def _command_target(workload: CommandWorkload, choice: CommandChoice) -> Target:
    if not choice.check:
        raise UsageError("a command needs --check CMD: what must hold in the recovered filesystem?")
    return Target(
        workload,
        {"kind": "command", "check": choice.check, "timeout_seconds": choice.check_timeout_seconds},
        payload=choice.payload,
        recover=choice.recover,
    )


def _container_target(arguments: Sequence[str], choice: CommandChoice) -> Target:
    """A container's program; `arguments` are in the place of the image's own."""
    if choice.image is None:
        raise UsageError("--target docker needs --image FILE: what docker save has written")
    if choice.setup or choice.payload:
        raise UsageError("--setup and --payload go with a command, not with --target docker")
    workload = container_workload(ContainerChoice(choice.image, choice.volume, tuple(arguments)))
    return _command_target(workload, replace(choice, payload=workload.payload))


def _file_target(path: Path, choice: CommandChoice) -> Target:
    """Read a workload file: `setup`, `check`, `recover`, `payload`, and `[[step]]`s with `run`."""
    try:
        content = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadWorkloadFile(f"cannot read the workload {path}: {error}") from error
    unknown = set(content) - _FILE_KEYS
    steps = content.get("step")
    if unknown or not isinstance(steps, list) or not steps:
        raise BadWorkloadFile(
            f"{path}: a workload has setup, check, check_timeout_seconds, recover, payload and "
            "[[step]]" + (f", not {sorted(unknown)[0]!r}" if unknown else "; it has no [[step]]")
        )
    parsed = tuple(_read_step(path, number, step) for number, step in enumerate(steps, 1))
    payload = choice.payload or (path.parent / content["payload"] if "payload" in content else None)
    merged = CommandChoice(
        setup=choice.setup or content.get("setup"),
        recover=choice.recover or content.get("recover"),
        check=choice.check or content.get("check"),
        check_timeout_seconds=content.get("check_timeout_seconds", choice.check_timeout_seconds),
        payload=payload,
    )
    return _command_target(
        CommandWorkload.of_steps(parsed, setup=merged.setup, payload=payload), merged
    )


def _read_step(path: Path, number: int, step: object) -> Step:
    match step:
        case {"run": str(script), **rest} if rest.keys() <= {"name"}:
            return Step(str(rest.get("name", f"step-{number}")), ("sh", "-ec", script))
    raise BadWorkloadFile(f"{path}: step {number} needs `run` (a string) and may have `name`")

"""Every installed fsync method through the model, in as many processes as are asked for.

A method is a process of `crashsim validate`, so that none shares anything with another one.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Generic, TypeVar

import msgspec

from crashsim.campaigns.necessity import NecessityResult
from crashsim.campaigns.options import Progress, no_progress
from crashsim.campaigns.validation import ValidationResult
from crashsim.errors import InfrastructureError
from crashsim.workloads.impl import method_names

EVERY = "all"
"""Instead of a method's name: every one that is installed."""

Result = TypeVar("Result", ValidationResult, NecessityResult)


class MethodProcessFailed(InfrastructureError):
    """A process that was to look at one method ended without a result."""


class EveryMethod(msgspec.Struct, Generic[Result], frozen=True):
    """What came of all methods.

    :ivar cpu_seconds: of all processes together.
    """

    methods: list[Result]
    seconds: float
    cpu_seconds: float
    schema: str = "crashsim.methods/1"


def each_method(
    kind: type[Result],
    options: Sequence[str],
    jobs: int,
    progress: Progress = no_progress,
) -> list[Result]:
    """What `crashsim validate --method NAME` with these options gives, for every method, by name.

    :param kind: of result that the options ask for.
    :param jobs: processes side by side.

    Raises MethodProcessFailed.
    """
    names = method_names()
    progress("methods", 0, len(names))
    with ThreadPoolExecutor(jobs) as pool:
        waiting = [pool.submit(_result_of, name, kind, options) for name in names]
        for done, _ in enumerate(as_completed(waiting), 1):
            progress("methods", done, len(names))
        return [each.result() for each in waiting]


def _result_of(name: str, kind: type[Result], options: Sequence[str]) -> Result:
    command: list[str] = [sys.executable, "-m", "crashsim.cli", "validate", "--method", name]
    done = subprocess.run([*command, *options, "--json", "-"], capture_output=True, check=False)
    if done.returncode not in (0, 1):  # A violation is a result, too.
        raise _failed(name, done)
    try:
        return msgspec.json.decode(done.stdout, type=kind)
    except msgspec.MsgspecError as error:
        raise _failed(name, done) from error


def _failed(name: str, done: subprocess.CompletedProcess[bytes]) -> MethodProcessFailed:
    told = done.stderr.decode("utf-8", "replace").strip().splitlines()
    last = told[-1] if told else "it said nothing"
    return MethodProcessFailed(f"the process for {name} ended with {done.returncode}: {last}")


def children_cpu_seconds() -> float:
    """Processor time of all processes that this one has started and waited for."""
    times = os.times()
    return times.children_user + times.children_system

"""What a workload is: a filesystem to start from and steps to take, as data.

The steps are data so that the recorder alone runs them: it puts marks around each, slows it down,
and writes it into the recording's manifest, for any workload in the same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from crashsim.errors import UsageError
from crashsim.machines.protocol import CommandResult, Guest


class WorkloadFailed(UsageError):
    """The program under test itself failed: there is nothing to explore then.

    An error of the caller's input and not of the infrastructure: the same command would have failed
    in a plain shell.
    """

    def __init__(self, workload: str, step: str, result: CommandResult) -> None:
        """Tell what failed with the last lines of what it printed."""
        if result.timed_out:
            ending = f"was still running after {result.seconds:.0f} s"
        elif result.returncode < 0:
            ending = f"was killed by signal {-result.returncode}"
        else:
            ending = f"exited with {result.returncode}"
        printed = (result.stderr.strip() or result.stdout.strip()).decode("utf-8", "replace")
        lines = "\n".join(f"  {line}" for line in printed.splitlines()[-8:])
        super().__init__(
            f"workload {workload}: {step} {ending}"
            + (f"; its last words:\n{lines}" if lines else " and printed nothing")
        )
        self.result = result


class CommandNotStarted(UsageError):
    """A workload's command is not there, or is no program."""


@dataclass(frozen=True, slots=True)
class Step:
    """One command of a workload. The recorder marks its begin, and makes a promise when it
    returned.

    :ivar name: unique in its workload; findings name it.
    :ivar argv: what is run.
    :ivar directory: where, relative to the filesystem's root; it must exist after `prepare`.
    """

    name: str
    argv: tuple[str, ...]
    directory: str = ""
    timeout_seconds: float = 300.0


class Workload(Protocol):
    """A program that makes promises."""

    @property
    def name(self) -> str:
        """The target, as results name it: `git`, `command`."""

    @property
    def steps(self) -> Sequence[Step]:
        """What to run, in this order."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables of every step, beside the guest's own."""

    @property
    def collect(self) -> Sequence[str]:
        """The prefixes below which the oracle needs the contents of files (`Guest.tree`)."""

    def prepare(self, guest: Guest, root: str) -> None:
        """Set up the fresh filesystem mounted at `root`; the recorder makes it durable afterwards.

        Raises WorkloadFailed when a command of the set-up fails.
        """

    def describe(self) -> Mapping[str, object]:
        """Everything that makes two recordings of this workload comparable, for the manifest."""

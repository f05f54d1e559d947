"""Any command as a workload: the contract of DESIGN section 5.

`--setup CMD` runs first and is made durable; then the command runs. Both have the fresh
filesystem's root as working directory. The command makes its promises itself, with `crashsim-mark
TEXT…`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from crashsim.errors import UsageError
from crashsim.machines.protocol import Guest
from crashsim.workloads.protocol import Step, WorkloadFailed
from crashsim.workloads.staging import PAYLOAD_ENVIRONMENT


class NoCommand(UsageError):
    """There is no command to run, or steps that cannot be told apart."""


@dataclass(frozen=True)
class CommandWorkload:
    """Commands of the user's own, with an optional set-up and payload.

    :ivar setup: an argument vector; what it did is durable before the first step.
    :ivar steps: usually one. Where a power cut may fall has nothing to do with steps; they are what
        a finding names.
    :ivar payload: a directory of the host whose programs the commands use. Guests come with it
        (`staging.put_payload`), those that recover no less than the one that records.
    """

    setup: tuple[str, ...] | None
    steps: Sequence[Step]
    payload: Path | None
    setup_timeout_seconds: float = 300.0
    name: str = "command"

    @classmethod
    def of_steps(
        cls, steps: Sequence[Step], *, setup: str | None = None, payload: Path | None = None
    ) -> Self:
        """Several commands, one after the other.

        :param setup: a string for the guest's `sh -c`.

        Raises NoCommand where there are none, or two of one name.
        """
        if not steps:
            raise NoCommand("a workload without a step has nothing to run")
        names = [step.name for step in steps]
        for name in names:
            if names.count(name) > 1:
                raise NoCommand(f"two steps are called {name!r}: which one would a finding name?")
        return cls(None if setup is None else ("sh", "-c", setup), tuple(steps), payload)

    @property
    def environment(self) -> Mapping[str, str]:
        """The payload's programs first on PATH."""
        return PAYLOAD_ENVIRONMENT

    @property
    def collect(self) -> Sequence[str]:
        """Nothing: its check runs in the guest, on the files themselves."""
        return ()

    def prepare(self, guest: Guest, root: str) -> None:
        """Run the set-up."""
        if self.setup is None:
            return
        result = guest.run(
            self.setup, cwd=root, env=self.environment, timeout_seconds=self.setup_timeout_seconds
        )
        if result.returncode != 0:
            raise WorkloadFailed(self.name, "--setup", result)

    def describe(self) -> Mapping[str, object]:
        """The set-up, and the payload's name (its content is not kept); steps are kept anyway."""
        return {
            "setup": None if self.setup is None else list(self.setup),
            "payload": None if self.payload is None else self.payload.name,
        }


def command_workload(
    command: Sequence[str] | str,
    *,
    setup: str | None = None,
    payload: Path | None = None,
    timeout_seconds: float = 300.0,
) -> CommandWorkload:
    """One command of the user's own.

    :param command: an argument vector, or a string for the guest's `sh -c`.
    :param setup: a string for the guest's `sh -c`.
    :param payload: a directory of the host that every guest has at /payload.

    Raises NoCommand for an empty one.
    """
    argv = ("sh", "-c", command) if isinstance(command, str) else tuple(command)
    if not command or not argv[0]:
        raise NoCommand("no command to run: write it after --, as in: crashsim run -- my-program")
    step = Step("command", argv, timeout_seconds=timeout_seconds)
    return CommandWorkload.of_steps([step], setup=setup, payload=payload)

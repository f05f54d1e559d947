"""The ways in which a guest can fail its host. None of them is ever a verdict about a program."""

from collections.abc import Sequence
from enum import StrEnum

from crashsim.errors import InfrastructureError


class Cause(StrEnum):
    """How a guest ended."""

    PANIC = "kernel panic"
    OOPS = "kernel oops"
    HUNG_TASK = "hung task"
    HUNG = "no answer"
    AGENT_GONE = "agent gone"
    DISK = "its disk failed on the host"
    PROTOCOL = "protocol violation"
    GONE = "virtual machine gone"
    ENDED = "ended"


class GuestDied(InfrastructureError):
    """The guest has panicked, hung or gone, and so has everything that it knew.

    :ivar cause: how, as far as can be told from outside.
    :ivar console: the last lines of its serial console.
    """

    def __init__(self, cause: Cause, what: str, console: Sequence[str] = ()) -> None:
        """`what` says what was asked of the guest, or what was seen of it."""
        self.cause = cause
        self.console = tuple(console)
        lines = "".join(f"\n  | {line}" for line in self.console)
        hint = f"; the last lines of its console:{lines}" if lines else ""
        super().__init__(f"the guest died ({cause}): {what}{hint}")


class AgentError(InfrastructureError):
    """The agent in the guest refused a request or could not do it; the guest is as it was.

    :ivar errno_name: `ENOENT` and the like where a system call failed, else empty.
    """

    def __init__(self, message: str, errno_name: str = "") -> None:
        """Say what was asked and what the agent said."""
        self.errno_name = errno_name
        super().__init__(message)


class MountFailed(AgentError):
    """mount(2) failed in the guest, for the reason `errno_name`."""


class MachineUnusable(InfrastructureError):
    """This host cannot run the machine: QEMU is missing, or does not start."""

"""The ways in which device-mapper can fail its caller."""

import errno
import os

from crashsim.errors import InfrastructureError, UsageError


class BadTable(UsageError):
    """A table, a name or a message that no kernel would take."""


class DeviceMapperMissing(InfrastructureError):
    """This kernel has no device-mapper, or this process may not use it."""


class TargetMissing(InfrastructureError):
    """This kernel has no such target."""


class CommandFailed(InfrastructureError):
    """The kernel refused a device-mapper command.

    :ivar errno_name: `EINVAL` and the like.
    """

    def __init__(self, command: str, name: str, number: int, told: str = "") -> None:
        """`told` is what the kernel's log says of it, if that could be read."""
        self.errno_name = errno.errorcode.get(number, str(number))
        of = f" of {name}" if name else ""
        hint = told or "`dmesg` may say more"
        super().__init__(f"device-mapper: {command}{of} failed: {os.strerror(number)}; {hint}")


class NodeMissing(InfrastructureError):
    """A device was made, and its node in /dev did not appear in time."""


class DeviceInUse(InfrastructureError):
    """A device is still open, so the kernel will remove it when its last user closes it."""


class GuardianGone(InfrastructureError):
    """The process that removes our devices should we be killed has itself ended."""


class EventTimeout(InfrastructureError):
    """The event that was waited for did not happen in time."""

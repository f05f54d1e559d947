"""Device-mapper, and the certainty that no device stays.

    with DeviceMapper() as mapper, mapper.device("ill", whole(size, Flakey(disk, 0, 1))) as device:
        ... device.path ...

Three things remove devices: the contexts, when they are left in whatever way; a guardian process,
when this one is killed; and the next `DeviceMapper`, where the guardian was killed as well.
"""

import contextlib
import itertools
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

from . import guardian, owners, sweeping
from .control import Control
from .device import Device
from .errors import DeviceInUse, GuardianGone
from .tables import Table, check_name
from .uevents import Uevents

GUARDIAN_SECONDS = 60.0
_NOT_FOR_THE_GUARDIAN = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT}
_sessions = itertools.count(1)


class DeviceMapper:
    """Makes devices. A context manager; what is made in it is gone when it is left."""

    def __init__(self) -> None:
        """Nothing happens before the context is entered."""
        self._resources = contextlib.ExitStack()
        self._numbers = itertools.count(1)

    def __enter__(self) -> Self:
        """Open device-mapper. Raises DeviceMapperMissing or GuardianGone."""
        with contextlib.ExitStack() as stack:
            self._control = stack.enter_context(Control())
            sweeping.sweep_orphans(self._control)
            self._uevents = stack.enter_context(Uevents())
            self._prefix = f"{owners.this_process().prefix}{next(_sessions)}-"
            self._guardian = stack.enter_context(_Guardian(self._control, self._prefix))
            self._resources = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close device-mapper; devices that are still there are the guardian's to remove."""
        self._resources.close()

    def targets(self) -> dict[str, tuple[int, int, int]]:
        """The version of each target that is loaded; others may be there as modules."""
        return self._control.versions()

    @contextlib.contextmanager
    def device(
        self, name: str, table: Table, *, suspending: Sequence[Device] = ()
    ) -> Iterator[Device]:
        """A device for as long as the context lasts.

        :param suspending: devices that are suspended while this one is made and while it is
            removed, as a snapshot asks it of its origin.

        Raises BadTable, TargetMissing, CommandFailed (EBUSY where the name is taken), NodeMissing;
        DeviceInUse at its end.
        """
        uuid = f"{self._prefix}{next(self._numbers)}:{check_name(name)}"
        device = Device(self._control, self._uevents, self._guardian.tell, name, uuid)
        try:
            with _suspended(suspending):
                device.create(table)
            yield device
        finally:
            try:
                with _suspended(suspending):
                    device.remove()
            except DeviceInUse:
                # Somebody may hang in it for no other reason than a suspension further down.
                if not self._resume_all():
                    raise
                device.remove()

    def _resume_all(self) -> int:
        """Resume what has been suspended and left so; how many devices that were."""
        devices = [one for one in sweeping.owned(self._control, self._prefix) if one.suspended]
        for device in devices:
            sweeping.resume_as_it_was(self._control, device.uuid)
            self._guardian.tell(False)
        return len(devices)


@contextlib.contextmanager
def _suspended(devices: Sequence[Device]) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for device in devices:
            stack.enter_context(device.suspended())
        yield


class _Guardian:
    """Our end of the guardian process."""

    def __init__(self, control: Control, prefix: str) -> None:
        self._control = control
        self._prefix = prefix
        self._connection, theirs = socket.socketpair()
        with theirs:
            self._process = _spawn(theirs.fileno(), prefix)
        self._connection.settimeout(GUARDIAN_SECONDS)

    def __enter__(self) -> Self:
        try:
            ready = self._connection.recv(1)
        except TimeoutError:
            ready = b""
        if ready != guardian.READY:
            self._end()
            raise GuardianGone(
                f"the guardian of our device-mapper devices does not start ({sys.executable})"
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        left = sweeping.owned(self._control, self._prefix)
        if all(device.removal_is_deferred for device in left):
            with contextlib.suppress(BrokenPipeError):
                self._connection.send(guardian.DONE)
        self._end()

    def tell(self, suspending: bool) -> None:
        """A device is about to be suspended, or was resumed. Raises GuardianGone for the first."""
        try:
            self._connection.send(guardian.SUSPENDING if suspending else guardian.RESUMED)
        except BrokenPipeError as error:
            if suspending:
                raise GuardianGone(
                    "the guardian of our device-mapper devices was killed: nothing is suspended "
                    "without it, leave the context and enter it again"
                ) from error

    def _end(self) -> None:
        self._connection.close()
        descriptor = os.pidfd_open(self._process)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if not poll.poll(GUARDIAN_SECONDS * 1000):
                raise GuardianGone(f"the guardian (process {self._process}) does not end")
            os.waitpid(self._process, 0)
        finally:
            os.close(descriptor)


def _spawn(descriptor: int, prefix: str) -> int:
    argv = guardian.command_line(descriptor, os.getpid(), prefix)
    # Not a fork of this process, which may have threads and a lot of memory.
    os.set_inheritable(descriptor, True)
    return os.posix_spawn(sys.executable, argv, {}, setsid=True, setsigmask=_NOT_FOR_THE_GUARDIAN)

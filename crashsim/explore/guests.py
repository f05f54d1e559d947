"""Recovering crash states in the guests of a machine."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Self

from crashsim.disk.crash_disk import CrashStateDisk
from crashsim.disk.image import ImageIndex
from crashsim.disk.state import CrashState
from crashsim.explore.recovery import GuestLost, RecovererAborted
from crashsim.explore.timeline import Int64s
from crashsim.machines.crash_disks import attach_disks
from crashsim.machines.failures import AgentError, Cause, GuestDied
from crashsim.machines.protocol import Guest, Machine, Mount, Recovery
from crashsim.machines.tree import Tree
from crashsim.oracles.protocol import Moment, Oracle, Violation

PANICS = frozenset({Cause.PANIC, Cause.OOPS})
"""Ends of a guest of which its kernel itself says that it broke."""


@dataclass(frozen=True)
class GuestAttempt:
    """A crash state that is mounted in a guest. See `recovery.Attempt`."""

    recovery: Recovery
    recoverer: "GuestRecoverer"
    guest: Guest

    def pages_read(self) -> Int64s:
        """Pages of the crash state that were read so far."""
        return self.recoverer.disk.pages_read()

    def exercise(self, oracle: Oracle, tree: Tree, moment: Moment) -> list[Violation]:
        """Let the oracle try real programs on the recovered filesystem."""
        root = f"/mnt/{self.recoverer.mount.slot}"
        with self.recoverer.losses_told():
            return oracle.exercise(self.guest, root, tree, moment)

    def second_opinion(self, oracle: Oracle) -> Mapping[str, str]:
        """What other programs say of the recovered filesystem."""
        with self.recoverer.losses_told():
            return oracle.second_opinion(self.guest, f"/mnt/{self.recoverer.mount.slot}")


class GuestRecoverer:
    """A guest with a crash disk, replaced whenever it cannot be trusted any more.

    See `recovery.Recoverer`. The guest is started at the first recovery, so a worker that the
    prunings leave without work costs nothing.

    :ivar replaced: how many guests were thrown away.
    """

    def __init__(
        self,
        machine: Machine,
        index: ImageIndex,
        mount: Mount,
        *,
        exclude: Sequence[str] = (),
        collect: Sequence[str] = ("",),
    ) -> None:
        """Recover states of `index` in guests of `machine`, mounted as `mount`.

        :param exclude: as `Guest.recover` takes it.
        :param collect: as `Guest.recover` takes it.
        """
        self.disk = CrashStateDisk(index)
        self.mount = mount
        self._disks = index.log.disks
        self.replaced = 0
        self._machine = machine
        self._exclude = exclude
        self._collect = collect
        self._guest: Guest | None = None
        self._stack = ExitStack()
        self._lock = threading.Lock()
        self._aborted = False

    @contextmanager
    def recover(self, state: CrashState) -> Iterator[GuestAttempt]:
        """Show the guest the disk that `state` stands for and let it mount it."""
        guest = self._ready_guest()
        self.disk.show(state)
        with self.losses_told():
            recovery = guest.recover(self.mount, exclude=self._exclude, collect=self._collect)
        try:
            yield GuestAttempt(recovery, self, guest)
        except BaseException:
            self._discard()
            raise
        if recovery.tainted:
            self._discard()
        elif recovery.tree is not None:
            self._unmount(guest)

    @contextmanager
    def losses_told(self) -> Iterator[None]:
        """Turn the guest's failures into GuestLost, or RecovererAborted if it was ended by us."""
        try:
            yield
        except (GuestDied, AgentError) as error:
            self._discard()
            if self._aborted:
                raise RecovererAborted("exploring was stopped") from error
            panicked = isinstance(error, GuestDied) and error.cause in PANICS
            raise GuestLost(str(error), panicked=panicked) from error

    def abort(self) -> None:
        """End the guest, from any thread."""
        with self._lock:
            self._aborted = True
            if self._guest is not None:
                self._guest.kill()

    def __enter__(self) -> Self:
        """Itself; there is no guest yet."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the guest and give back the disk's room."""
        self._discard()
        self.disk.close()

    def _ready_guest(self) -> Guest:
        if self._guest is None and not self._aborted:
            guest = self._stack.enter_context(self._machine.start())
            attach_disks(guest, self.disk, self._disks, self.mount.slot)
            with self._lock:
                self._guest = guest
        if self._guest is None or self._aborted:
            raise RecovererAborted("exploring was stopped")
        return self._guest

    def _unmount(self, guest: Guest) -> None:
        """Unmount. A guest that cannot has done its work, and another one goes on from here."""
        try:
            guest.unmount(self.mount.slot)
        except (GuestDied, AgentError):
            self._discard()

    def _discard(self) -> None:
        with self._lock:
            if self._guest is not None:
                self._guest = None
                self.replaced += 1
        self._stack.close()

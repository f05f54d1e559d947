"""One running QEMU as a Guest: its process, its channels, its disks."""

import contextlib
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from crashsim.disk.nbd import socket_pair
from crashsim.machines.channel import Channel
from crashsim.machines.console import Console
from crashsim.machines.failures import Cause, GuestDied
from crashsim.machines.hardware import CRASH_DISKS, Sockets
from crashsim.machines.hosted_guest import HostedGuest
from crashsim.machines.monitor import Monitor, MonitorFailed
from crashsim.machines.protocol import MachineInfo
from crashsim.machines.qemu_process import Launch, QemuProcess

LAST_WORDS_SECONDS = 5.0
SAVE_SECONDS = 60.0
SAVE_POLL_SECONDS = 0.02


class QemuGuest(HostedGuest):
    """A virtual machine and what belongs to it on the host. Leaving its context ends all of it."""

    def __init__(
        self,
        info: MachineInfo,
        arguments: Callable[[Sockets], list[str]],
        descriptors: Sequence[int] = (),
        launch: Launch = QemuProcess,
    ) -> None:
        """Start QEMU; it need not have booted when this returns.

        :param arguments: gives the command line for its ends of the channels.
        :param descriptors: what it inherits besides.
        :param launch: how to start it.
        """
        super().__init__()
        self.info = info
        with contextlib.ExitStack() as theirs, self._resources:
            monitor, console, agent = (self._pair(theirs) for _ in range(3))
            disks = [socket_pair() for _ in range(CRASH_DISKS)]
            sockets = Sockets(
                monitor[1].fileno(),
                console[1].fileno(),
                agent[1].fileno(),
                tuple(theirs.enter_context(end).fileno() for _, end in disks),
            )
            self._serve(end for end, _ in disks)
            self._monitor_socket = monitor[0]
            self._monitor: Monitor | None = None
            self.process = launch(arguments(sockets), [*sockets.all, *descriptors])
            self._resources.callback(self.process.kill)
            self._console = Console(console[0], self._in_trouble)
            self._resources.callback(self._console.close)
            self._drive(Channel(agent[0], self._describe))
            self._resources = self._resources.pop_all()

    @property
    def monitor(self) -> Monitor:
        """QEMU's monitor, connected when it is first needed."""
        if self._monitor is None:
            self._monitor = Monitor(self._monitor_socket)
            self._resources.callback(self._monitor.close)
        return self._monitor

    def save(self, devices: Path) -> None:
        """Write the state of the guest's devices to a file, upon which it stands still.

        Its memory is in its own file already, and is left out (`x-ignore-shared`). It is not
        stopped before, since QEMU would save that too. Raises MonitorFailed.
        """
        self._migrate_devices_only()
        with devices.open("wb") as file:
            self.monitor.send_descriptor("snapshot", file.fileno())
            self.monitor.execute("migrate", {"uri": "fd:snapshot"})
            deadline = time.monotonic() + SAVE_SECONDS
            while (status := self.monitor.execute("query-migrate")["status"]) != "completed":
                if status in ("failed", "cancelled") or time.monotonic() > deadline:
                    raise MonitorFailed(f"saving the guest's devices ended in {status}")
                time.sleep(SAVE_POLL_SECONDS)

    def load(self, devices: Path) -> None:
        """Go on from where a saved guest stopped; QEMU was started with `-incoming defer`.

        Raises GuestDied where QEMU does not take it; that may show later, too.
        """
        try:
            self._migrate_devices_only()
            with devices.open("rb") as file:
                self.monitor.send_descriptor("snapshot", file.fileno())
                self.monitor.execute("migrate-incoming", {"uri": "fd:snapshot"})
        except MonitorFailed as error:
            raise self._describe(Cause.GONE, str(error)) from error

    def _migrate_devices_only(self) -> None:
        capability = {"capability": "x-ignore-shared", "state": True}
        self.monitor.execute("migrate-set-capabilities", {"capabilities": [capability]})

    def wait_for_agent(self, timeout_seconds: float) -> None:
        """Wait until the agent of a booting guest has said hello. Raises GuestDied."""
        if not self._channel.hello.wait(timeout_seconds):
            self._channel.fail(self._describe(Cause.HUNG, "it did not boot in time"))
        if self._channel.death is not None:
            raise self._channel.death

    def take_console(self) -> socket.socket:
        """The serial console, for a shell. Nobody watches it for a panic from now on."""
        return self._console.hand_over()

    def _pair(self, theirs: contextlib.ExitStack) -> tuple[socket.socket, socket.socket]:
        ours, their = socket.socketpair()
        self._resources.enter_context(ours)
        theirs.enter_context(their)
        return ours, their

    def _in_trouble(self, cause: Cause) -> None:
        self._channel.fail(self._describe(cause, "its console says so"))

    def _last_words(self) -> Sequence[str]:
        """The last lines of its console."""
        return self._console.tail()

    def _describe(self, cause: Cause, what: str) -> GuestDied:
        """The error for a guest that has died; of all that can be seen, what explains most."""
        if self._killed:
            return GuestDied(Cause.ENDED, "it was ended by this process")
        if cause is Cause.GONE:
            # A panic ends QEMU: the console's end says why.
            cause = self._console.wait_for_end(LAST_WORDS_SECONDS) or cause
            complaint = self.process.stderr()
            if complaint:
                what = f"{what}; QEMU says: {complaint}"
        return GuestDied(cause, what, self._last_words())

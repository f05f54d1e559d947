"""A guest that this process started: its crash disks, which are served here, and its end."""

import contextlib
import socket
import threading
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from crashsim.disk.latency import NO_LATENCY, Latency
from crashsim.disk.nbd import NbdServer
from crashsim.disk.recording_disk import NullDisk
from crashsim.disk.server import Disk
from crashsim.errors import UsageError
from crashsim.machines.channel import Channel
from crashsim.machines.failures import Cause, GuestDied
from crashsim.machines.guest import AgentGuest
from crashsim.machines.hardware import CRASH_DISK_BYTES


class HostedGuest(AgentGuest):
    """What belongs to a guest on the host. Leaving its context ends all of it."""

    def __init__(self) -> None:
        """Nothing runs yet: first come the disks (`_serve`), then the agent (`_drive`)."""
        self._resources = contextlib.ExitStack()
        self._killing = threading.Lock()
        self._killed = False
        self._disks: list[NbdServer] = []

    def attach(self, slot: int, disk: Disk, latency: Latency = NO_LATENCY) -> None:
        """Back disk `slot` by `disk` from now on. The guest must not have it mounted."""
        if disk.size_bytes != CRASH_DISK_BYTES:
            raise UsageError(f"a crash disk has {CRASH_DISK_BYTES} bytes, not {disk.size_bytes}")
        self._disks[slot].replace(disk, latency)

    def kill(self) -> None:
        """End it at once, and all that belongs to it. Idempotent."""
        with self._killing:
            self._killed = True
            self._resources.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End it."""
        self.kill()

    def _serve(self, ends: Iterable[socket.socket]) -> None:
        """Serve an empty disk at each of these sockets."""
        self._disks = [NbdServer(end, NullDisk(CRASH_DISK_BYTES)) for end in ends]
        for server in self._disks:
            server.start()
            self._resources.callback(server.stop)

    def _drive(self, channel: Channel) -> None:
        """Its agent is behind this channel, which ends with it."""
        AgentGuest.__init__(self, channel)
        self._resources.callback(channel.close)

    def _check_host(self) -> None:
        """A disk that failed here must not pass for one that failed in the guest."""
        for slot, server in enumerate(self._disks):
            if server.failure is not None and not self._killed:
                death = GuestDied(Cause.DISK, f"disk {slot}: {server.failure}", self._last_words())
                self._channel.fail(death)
                raise death from server.failure

    def _last_words(self) -> Sequence[str]:
        """The last lines of its console, if it has one."""
        return ()

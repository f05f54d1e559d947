"""The kernel's device events, as wake-ups: a netlink socket (netlink(7), NETLINK_KOBJECT_UEVENT).

pyroute2 has such a socket, too. It is not used: importing it takes five seconds in an emulated
guest, this module a hundredth of that, and what the events *say* is not needed here. They only say
when to look again at what /dev and /sys show, so one that was lost or forged does no harm.
"""

import errno
import select
import socket
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

NETLINK_KOBJECT_UEVENT = 15  # linux/netlink.h
KERNEL_GROUP = 1
RECEIVE_BYTES = 16 << 10


class Uevents:
    """Device events from the moment on that this was made."""

    def __init__(self) -> None:
        """Subscribe. Make this before what is to be waited for is set off."""
        kind = socket.SOCK_DGRAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
        self._socket = socket.socket(socket.AF_NETLINK, kind, NETLINK_KOBJECT_UEVENT)
        self._socket.bind((0, KERNEL_GROUP))

    def wait_until(self, condition: Callable[[], bool], timeout_seconds: float) -> bool:
        """Wait for a condition that some device event makes true; whether it has become so."""
        deadline = time.monotonic() + timeout_seconds
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                return condition()
            self._drain()
        return True

    def _drain(self) -> None:
        try:
            while True:
                self._socket.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ENOBUFS:
                raise
            return  # events were lost: all the more reason to look

    def close(self) -> None:
        """Unsubscribe. Idempotent."""
        self._socket.close()

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Unsubscribe."""
        self.close()

"""Several disks of a guest that are one disk here: with one log, and so with one power cut.

Each guest disk is a window on the common space of addresses, one behind the other. What makes them
several is that a FLUSH is of one window (`durable_positions`), as each device has its own cache.
Their servers are several threads; which event came first is what the log says: each is put there
under one lock. A guest that needs an order between two disks waits for a reply of one before it
sends anything to the other, and a reply is in the log before it is sent.
"""

import threading
from collections.abc import Sequence
from dataclasses import replace

from crashsim.disk.request import Operation, Request
from crashsim.disk.server import Disk


class DiskWindow:
    """A part of a Disk as a Disk of its own."""

    def __init__(
        self, whole: Disk, offset_bytes: int, size_bytes: int, lock: threading.Lock
    ) -> None:
        """Show `size_bytes` of a disk from `offset_bytes` on.

        :param lock: one for all windows of a disk: a Disk is called by one thread at a time.
        """
        self.size_bytes = size_bytes
        self._whole = whole
        self._offset_bytes = offset_bytes
        self._lock = lock

    def arrived(self, request: Request) -> int:
        """Note a request's arrival."""
        with self._lock:
            return self._whole.arrived(self._shifted(request))

    def perform(self, request: Request) -> bytes:
        """Do it."""
        with self._lock:
            return self._whole.perform(self._shifted(request))

    def replied(self, ticket: int, error: int) -> None:
        """Note that the reply is about to be sent."""
        with self._lock:
            self._whole.replied(ticket, error)

    def _shifted(self, request: Request) -> Request:
        """The request as the whole disk has it; a FLUSH with the place at which its disk begins."""
        end = request.offset_bytes + request.length_bytes
        if end > self.size_bytes or (request.operation is Operation.FLUSH and end):
            raise ValueError(f"a request up to {end} does not fit a disk of {self.size_bytes}")
        return replace(request, offset_bytes=request.offset_bytes + self._offset_bytes)


def windows(whole: Disk, disks: int) -> Sequence[Disk]:
    """A disk as so many disks of one size; itself, if it is to be one."""
    if disks == 1:
        return [whole]
    size_bytes, rest = divmod(whole.size_bytes, disks)
    if rest:
        raise ValueError(f"{whole.size_bytes} bytes are no {disks} disks of one size")
    lock = threading.Lock()
    return [DiskWindow(whole, number * size_bytes, size_bytes, lock) for number in range(disks)]

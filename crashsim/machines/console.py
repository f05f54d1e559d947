"""The guest's serial console: kept in part, and watched for the kernel's last words."""

import re
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable

from crashsim.machines.failures import Cause

TAIL_LINES = 60
LINE_BYTES_MAX = 1024
QUIET_SECONDS = 0.5
"""After the first bad line the rest of the trace follows; this long without a byte ends it."""

_PREFIX = rb"^\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? "
_TROUBLE = (
    (Cause.PANIC, re.compile(_PREFIX + rb"Kernel panic - not syncing")),
    (
        Cause.OOPS,
        re.compile(_PREFIX + rb"(?:BUG: |Oops: |kernel BUG at |general protection fault)"),
    ),
    (
        Cause.HUNG_TASK,
        re.compile(_PREFIX + rb"INFO: task .{1,64} blocked for more than \d+ seconds"),
    ),
    (Cause.AGENT_GONE, re.compile(rb"^crashsim: (?:agent exited|init failed)")),
)
"""Lines of the kernel (with their time, which programs of the guest do not print) and of init."""

_UNPRINTABLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|[^\x20-\x7e\t]")


def trouble(line: bytes) -> Cause | None:
    """What a line of the console says has happened, if it is one of the bad ones."""
    for cause, pattern in _TROUBLE:
        if pattern.search(line):
            return cause
    return None


class Console:
    """Reads one guest's console in the background, from its start to its end.

    :ivar cause: what it has said to be the matter, once all of it has been said.
    """

    def __init__(self, connection: socket.socket, on_trouble: Callable[[Cause], None]) -> None:
        """Read `connection`; call `on_trouble` once if there is any."""
        self.cause: Cause | None = None
        self._connection = connection
        self._on_trouble = on_trouble
        self._lines: deque[bytes] = deque(maxlen=TAIL_LINES)
        self._partial = b""
        self._wake, self._wake_end = socket.socketpair()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read, name="console", daemon=True)
        self._thread.start()

    def tail(self) -> tuple[str, ...]:
        """The last lines, made printable: they come from the guest and end on a terminal."""
        lines = [*self._lines.copy(), self._partial]
        return tuple(
            _UNPRINTABLE.sub("", line.decode("ascii", "replace")) for line in lines if line.strip()
        )

    def wait_for_end(self, timeout_seconds: float) -> Cause | None:
        """Wait until the console has ended, as it does with QEMU; the trouble, if there was any."""
        self._ended.wait(timeout_seconds)
        return self.cause

    def hand_over(self) -> socket.socket:
        """Stop reading and watching; the connection is the caller's to read and write."""
        self._wake_end.close()
        if threading.current_thread() is not self._thread:
            self._thread.join()
        return self._connection

    def close(self) -> None:
        """Stop reading and close. Idempotent."""
        self.hand_over().close()

    def _read(self) -> None:
        noticed: Cause | None = None
        with selectors.DefaultSelector() as selector, self._wake:
            selector.register(self._connection, selectors.EVENT_READ)
            selector.register(self._wake, selectors.EVENT_READ)
            while True:
                # Once there is trouble, silence says that all of it has been said.
                quiet = QUIET_SECONDS if noticed and not self.cause else None
                ready = [key.fileobj for key, _ in selector.select(quiet)]
                data = self._receive() if self._connection in ready else b""
                noticed = noticed or self._take(data)
                if noticed and not self.cause and not data:
                    self.cause = noticed
                    self._on_trouble(noticed)
                if self._wake in ready or (self._connection in ready and not data):
                    break
        self._ended.set()

    def _receive(self) -> bytes:
        try:
            return self._connection.recv(1 << 16)
        except ConnectionResetError:
            return b""  # QEMU was killed with something unread

    def _take(self, data: bytes) -> Cause | None:
        """Add to the lines; the first trouble that the new ones tell of."""
        *lines, rest = (self._partial + data).split(b"\n")
        self._partial = rest[-LINE_BYTES_MAX:]
        causes = []
        for line in lines:
            self._lines.append(line[-LINE_BYTES_MAX:].rstrip(b"\r"))
            causes.append(trouble(line))
        return next(filter(None, causes), None)

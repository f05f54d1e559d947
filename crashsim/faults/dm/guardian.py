"""The guardian: a process that removes another one's devices should that be killed.

It is told of nothing in advance: it looks for devices by the prefix of their uuid. Over a socket
it hears when a device is suspended, since the other process may then be stuck when it is killed,
and that all is done.

It imports little, since every use of device-mapper waits for its start: `re`, `signal` and `socket`
would double that.
"""

import contextlib
import os
import select
import sys

from . import owners
from .control import Control
from .sweeping import sweep

READY, SUSPENDING, RESUMED, DONE = b"g", b"+", b"-", b"."
LOOK_MILLISECONDS = 100
"""How often the other process is looked at while a device of its is suspended."""


class _Watch:
    """What is known of the process that is watched."""

    def __init__(self, connection: int, process: int) -> None:
        self._connection = connection
        self._process = process
        self._suspended = 0
        self._poll = select.poll()
        self._poll.register(connection, select.POLLIN)
        with contextlib.suppress(ProcessLookupError):
            self._poll.register(os.pidfd_open(process), select.POLLIN)

    def all_is_well_until_the_end(self) -> bool:
        """Watch to the end: True once it says that it is done, False if it has died before."""
        while True:
            ready = self._poll.poll(LOOK_MILLISECONDS if self._suspended else None)
            if not ready and owners.is_dying(self._process):
                return False
            # What it said last counts even if it has ended since.
            said = self._hear() if ready else b""
            if DONE in said:
                return True
            if ready and not said:
                return False

    def _hear(self) -> bytes:
        said = b""
        with contextlib.suppress(BlockingIOError, ConnectionResetError):
            said = os.read(self._connection, 4096)
        self._suspended += said.count(SUSPENDING) - said.count(RESUMED)
        return said


def main(connection: int, process: int, prefix: str) -> None:
    """Watch `process`, which is our parent, through the socket `connection`."""
    os.set_blocking(connection, False)
    with Control() as control:
        watch = _Watch(connection, process)
        # Should the parent have ended before it could be watched, then this is not its process.
        if os.getppid() != process:
            return
        os.write(connection, READY)
        if not watch.all_is_well_until_the_end():
            sweep(control, prefix)


def command_line(connection: int, process: int, prefix: str) -> list[str]:
    """What to execute so that it is the guardian: with this package's path and nothing else."""
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), *(os.pardir,) * 3))
    code = "import sys; sys.path.insert(0, sys.argv[1]); from crashsim.faults.dm import guardian; "
    code += "guardian.main(int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])"
    interpreter = [sys.executable, "-I", "-S", "-c", code]
    return [*interpreter, root, str(connection), str(process), prefix]

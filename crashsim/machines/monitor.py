"""QEMU's monitor (QMP) for callers that are not asynchronous.

The protocol is qemu.qmp's, which runs in one event loop, in a thread of its own.
"""

import asyncio
import socket
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

from qemu.qmp import ExecuteError, QMPClient, QMPError

from crashsim.errors import InfrastructureError

T = TypeVar("T")
COMMAND_SECONDS = 60.0


class MonitorFailed(InfrastructureError):
    """QEMU refused a monitor command, or its monitor does not answer."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="qmp", daemon=True).start()
    return loop


class Monitor:
    """A connection to one QEMU's monitor."""

    def __init__(self, connection: socket.socket) -> None:
        """Greet the QEMU at the other end. Raises MonitorFailed."""
        self._client = QMPClient("crashsim")
        self._do(self._client.connect(connection), "the greeting")

    def execute(self, command: str, arguments: dict[str, object] | None = None) -> Any:
        """What QEMU returns for a command. Raises MonitorFailed."""
        return self._do(self._client.execute(command, arguments), command)

    def send_descriptor(self, name: str, descriptor: int) -> None:
        """Give QEMU a file descriptor that later commands know as `fd:<name>`."""

        async def send() -> None:
            self._client.send_fd_scm(descriptor)
            await self._client.execute("getfd", {"fdname": name})

        self._do(send(), "getfd")

    def close(self) -> None:
        """Hang up."""
        try:
            self._do(self._client.disconnect(), "disconnect")
        except MonitorFailed:
            return  # the other side was first: QEMU has ended

    def _do(self, coroutine: Coroutine[Any, Any, T], what: str) -> T:
        future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
        try:
            return future.result(COMMAND_SECONDS)
        except ExecuteError as error:
            raise MonitorFailed(f"QEMU refused {what}: {error}") from error
        except (QMPError, OSError, EOFError) as error:
            raise MonitorFailed(f"QEMU's monitor failed at {what}: {error}") from error
        except TimeoutError as error:
            future.cancel()
            raise MonitorFailed(f"QEMU's monitor did not answer {what}") from error

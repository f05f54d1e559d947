"""Child processes: the second door to the operating system, beside the port.

`Children` starts a command of this store as a process of its own and lets its caller feed it.
`OsChildren` uses posix_spawn(3). A simulated one runs the same command within its own process.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from impl.durability.port import Bytes, Port


class Finished(NamedTuple):
    """How a child ended.

    :ivar status: its exit status; minus the signal's number if a signal killed it.
    :ivar output: everything that it wrote to standard output.
    :ivar errors: everything that it wrote to standard error.
    """

    status: int
    output: bytes
    errors: bytes


class Child(Protocol):
    """A running child, its standard input open."""

    def write(self, data: Bytes) -> int:
        """write(2) to the child's standard input: how many bytes it took, perhaps not all.

        Raises OSError: BrokenPipeError if the child no longer reads, InterruptedError.
        """

    def close_input(self) -> None:
        """close(2) of its standard input: the child sees the end. Raises OSError."""

    def finish(self) -> Finished:
        """Wait for its end. To be called once, whatever happened before."""


class Children(Protocol):
    """Starts commands of this store."""

    def start(self, arguments: Sequence[str], directory: str) -> Child:
        """Start `refgit ARGUMENTS` in a directory. Raises OSError."""


class OsChildren:
    """Processes of the operating system, running this store's own code."""

    def __init__(self, port: Port, environment: Mapping[str, str]) -> None:
        """:param port: writes to the children. :param environment: theirs."""
        self._port = port
        self._environment = environment

    def start(self, arguments: Sequence[str], directory: str) -> Child:
        """posix_spawn(3) of this interpreter.

        It does not look for modules in the directory that it runs in (`-P`): a repository may
        have files that are named like them.
        """
        package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        root = os.path.dirname(package)
        paths = [root, *filter(None, [self._environment.get("PYTHONPATH")])]
        environment = {**self._environment, "PYTHONPATH": os.pathsep.join(paths)}
        command = [sys.executable, "-P", "-m", "impl", "-C", directory, *arguments]
        reading, writing = os.pipe()
        # Files in memory, not pipes: nobody has to read them while the child is being fed.
        output, errors = os.memfd_create("output"), os.memfd_create("errors")
        try:
            process = os.posix_spawn(
                sys.executable,
                command,
                environment,
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, reading, 0),
                    (os.POSIX_SPAWN_DUP2, output, 1),
                    (os.POSIX_SPAWN_DUP2, errors, 2),
                ],
            )
        except OSError:
            for descriptor in (writing, output, errors):
                os.close(descriptor)
            raise
        finally:
            os.close(reading)
        return _OsChild(self._port, process, writing, output, errors)


class _OsChild:
    def __init__(self, port: Port, process: int, writing: int, output: int, errors: int) -> None:
        self._port = port
        self._process = process
        self._writing = writing
        self._output = output
        self._errors = errors

    def write(self, data: Bytes) -> int:
        return self._port.write(self._writing, data)

    def close_input(self) -> None:
        self._port.close(self._writing)

    def finish(self) -> Finished:
        _, status = os.waitpid(self._process, 0)
        return Finished(
            os.waitstatus_to_exitcode(status), _contents(self._output), _contents(self._errors)
        )


def _contents(descriptor: int) -> bytes:
    with os.fdopen(descriptor, "rb") as file:
        file.seek(0)
        return file.read()

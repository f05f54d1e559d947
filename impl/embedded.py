"""The store as a function: one command, run in this process, on whatever port it is given.

This is how a simulated operating system runs the store (entry point group
`crashsim.simulated_programs`): nothing here touches the real one, apart from the clock.
"""

import contextlib
import io
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from impl.cli import complain, parse, run
from impl.context import Context
from impl.durability.port import Bytes, Port
from impl.durability.spawn import Finished
from impl.errors import StoreError


class Ended(NamedTuple):
    """How a command ended.

    :ivar code: the exit code that a process would have.
    :ivar output: what it wrote to standard output.
    :ivar errors: what it wrote to standard error.
    """

    code: int
    output: bytes
    errors: str


def call(
    port: Port,
    directory: str,
    arguments: Sequence[str],
    environment: Mapping[str, str],
    standard_input: bytes = b"",
) -> Ended:
    """Run `refgit ARGUMENTS` in a directory, as a process with this environment would.

    :param arguments: as on the command line, global options first.
    """
    output = io.BytesIO()
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        try:
            invocation = parse(arguments, directory, dict(environment))
            context = Context(
                port,
                invocation.directory,
                invocation.overrides,
                invocation.environment,
                standard_input=io.BytesIO(standard_input),
                standard_output=output,
            )
            context.children = EmbeddedChildren(port, invocation.environment)
            code = run(context, invocation.command, invocation.arguments)
        except (StoreError, OSError) as error:
            code = complain(error)
    return Ended(code, output.getvalue(), errors.getvalue())


class EmbeddedChildren:
    """`Children` without processes: a child runs to its end when it is waited for."""

    def __init__(self, port: Port, environment: Mapping[str, str]) -> None:
        """:param port: the children's, too. :param environment: theirs."""
        self._port = port
        self._environment = environment

    def start(self, arguments: Sequence[str], directory: str) -> "EmbeddedChild":
        """Note what is to be run."""
        return EmbeddedChild(self._port, self._environment, tuple(arguments), directory)


class EmbeddedChild:
    """One of them."""

    def __init__(
        self, port: Port, environment: Mapping[str, str], arguments: Sequence[str], directory: str
    ) -> None:
        """Fields as of `call`."""
        self._port = port
        self._environment = environment
        self._arguments = arguments
        self._directory = directory
        self._input = bytearray()

    def write(self, data: Bytes) -> int:
        """Take all of it."""
        self._input += data
        return len(data)

    def close_input(self) -> None:
        """Nothing is open."""

    def finish(self) -> Finished:
        """Run the command on what was written."""
        ended = call(
            self._port, self._directory, self._arguments, self._environment, bytes(self._input)
        )
        return Finished(ended.code, ended.output, ended.errors.encode())

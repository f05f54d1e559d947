"""What a command is given: where it runs, its streams, and the repository when it asks for it."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, BinaryIO

from impl.durability.port import Port
from impl.repository import Repository, discover

if TYPE_CHECKING:  # Few commands start others.
    from impl.durability.spawn import Children


class Context:
    """The surroundings of one command.

    :ivar port: the door to the operating system.
    :ivar directory: the absolute path that the command runs in.
    :ivar overrides: the values of `-c`, as given.
    :ivar environment: the environment variables.
    :ivar input: standard input.
    :ivar output: standard output; flushed when the command ends.
    :ivar children: starts commands of the store; None for processes of the operating system.
    """

    def __init__(
        self,
        port: Port,
        directory: str,
        overrides: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        *,
        standard_input: BinaryIO | None = None,
        standard_output: BinaryIO | None = None,
    ) -> None:
        """With this process' streams, unless others are given."""
        self.port = port
        self.directory = directory
        self.overrides = tuple(overrides)
        self.environment: Mapping[str, str] = {} if environment is None else environment
        self.input: BinaryIO = standard_input or sys.stdin.buffer
        self.output: BinaryIO = standard_output or sys.stdout.buffer
        self.children: Children | None = None

    @cached_property
    def repository(self) -> Repository:
        """The repository that the directory is in. Raises NotARepository."""
        location = discover(self.port, self.directory, self.environment)
        return Repository(self.port, location, self.overrides, self.environment)

    @property
    def has_repository(self) -> bool:
        """Whether `repository` has been asked for."""
        return "repository" in self.__dict__

    def path(self, argument: str) -> str:
        """An argument that names a file, as an absolute path."""
        return os.path.join(self.directory, argument)

    def now(self) -> int:
        """The time in seconds since the epoch."""
        return int(time.time())

    def print(self, line: str) -> None:
        """One line on standard output."""
        self.output.write(os.fsencode(line) + b"\n")

    def warn(self, message: str) -> None:
        """A warning on standard error."""
        sys.stderr.write(f"warning: {message}\n")

"""How a worker recovers crash states: its guest, its crash disk, and what happens when they die."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from crashsim.disk.state import CrashState
from crashsim.errors import InfrastructureError
from crashsim.explore.timeline import Int64s
from crashsim.machines.protocol import Recovery
from crashsim.machines.tree import Tree
from crashsim.oracles.protocol import Moment, Oracle, Violation


class GuestLost(InfrastructureError):
    """The guest went away while it was recovering or exercising a crash state.

    :ivar panicked: its kernel said so itself (a panic or an oops on the console), in contrast to a
        guest that hung or whose process ended.
    """

    def __init__(self, message: str, *, panicked: bool) -> None:
        """Say what happened, with the last lines of the guest's console."""
        super().__init__(message)
        self.panicked = panicked


class RecovererAborted(InfrastructureError):
    """`Recoverer.abort` was called: exploring stops here."""


class Attempt(Protocol):
    """A crash state that is mounted in a guest right now."""

    @property
    def recovery(self) -> Recovery:
        """What came of mounting it."""

    def pages_read(self) -> Int64s:
        """Pages of the crash state that were read so far; at least all that can differ."""

    def exercise(self, oracle: Oracle, tree: Tree, moment: Moment) -> list[Violation]:
        """Let the oracle try real programs on the recovered filesystem.

        Raises Inconclusive as `Oracle.exercise` does, and GuestLost.
        """

    def second_opinion(self, oracle: Oracle) -> Mapping[str, str]:
        """What other programs say of the recovered filesystem. Raises GuestLost."""


class Recoverer(Protocol):
    """One worker's guest and crash disk. Used by one thread at a time; a context manager."""

    def recover(self, state: CrashState) -> AbstractContextManager[Attempt]:
        """Show the guest the disk that `state` stands for and let it mount it.

        Leaving the context unmounts, and replaces the guest if its kernel was tainted. Raises
        GuestLost, on entering or leaving, when the guest went away; it has been replaced then.
        """

    def __enter__(self) -> "Recoverer":
        """Itself; the guest may be started later, at first use."""

    def __exit__(self, *_: object) -> None:
        """End the guest, whatever it is doing."""

    def abort(self) -> None:
        """End the guest, from any thread: what is going on raises RecovererAborted, and so does
        every later call of `recover`."""

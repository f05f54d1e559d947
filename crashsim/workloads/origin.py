"""Recordings that go on with the disk that another one left, and where they end."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from crashsim.disk.log_writer import LogWriter
from crashsim.machines.protocol import Guest, Recovery


@dataclass(frozen=True, slots=True)
class Origin:
    """What a recording goes on with: the directory that it is made in has a base image.

    :ivar promises: those that are in force; they become the first marks of the log.
    :ivar recovered: called with the guest that has mounted the disk and with what it found. It may
        change the filesystem; what it raises ends the recording.
    :ivar explored: the recovery is what is recorded: the START mark comes before it, nothing is
        synced between it and the first step, and nobody promises what it came to.
    """

    promises: Sequence[str]
    recovered: Callable[[Guest, Recovery], None]
    explored: bool = False


Enough = Callable[[str, LogWriter], bool]
"""enough(name of the step that was just taken, the log): whether no more steps are to be taken."""

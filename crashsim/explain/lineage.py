"""The life of each file in a trace: how it was made, named, synced.

A *file* here is what an inode is: it can get names (by creation, link, rename) and lose them. Its
events are in the order in which the calls ended, and each knows the process and step it came from.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum


class EventKind(Enum):
    """What can happen to a file.

    :cvar SYNCED: fsync(2), fdatasync(2), or sync(2) and syncfs(2), which take in every file.
    :cvar WRITEOUT: sync_file_range(2): its pages were sent to the disk, nothing was flushed.
    :cvar NAMED: it got a name by link or rename.
    """

    CREATED = "created"
    TRUNCATED = "truncated"
    WRITTEN = "written"
    SYNCED = "synced"
    WRITEOUT = "writeout"
    NAMED = "named"
    UNNAMED = "unnamed"


@dataclass(frozen=True, slots=True)
class FileEvent:
    """Something that happened to a file, or a directory.

    :ivar index: its place among all events of the trace.
    :ivar path: the file's name then; for NAMED and UNNAMED the name that it got or lost. Relative
        to the traced filesystem's root.
    :ivar call: the system call.
    :ivar command: what the process was started as: `git add --all`.
    """

    index: int
    kind: EventKind
    path: str
    call: str
    step: str
    command: str
    seconds: float


@dataclass(eq=False)
class TracedFile:
    """One file.

    :ivar names: every name that it ever had, oldest first.
    :ivar events: what happened to it.
    """

    names: list[str] = field(default_factory=list)
    events: list[FileEvent] = field(default_factory=list)

    def of(self, *kinds: EventKind) -> list[FileEvent]:
        """Its events of some kinds, in order."""
        return [event for event in self.events if event.kind in kinds]


@dataclass(frozen=True)
class Trace:
    """What a run of the steps did, as strace saw it.

    :ivar files: every file below the root that was created, changed, synced or renamed.
    :ivar directory_syncs: the fsyncs of directories.
    :ivar syncs: every sync of anything, by its step, in order.
    :ivar steps: the names of the steps, in order.
    """

    files: Sequence[TracedFile]
    directory_syncs: Sequence[FileEvent]
    syncs: Sequence[FileEvent]
    steps: Sequence[str]

    def named(self, path: str) -> list[TracedFile]:
        """The files that ever had that name, in the order in which they got it first."""
        return [file for file in self.files if path in file.names]

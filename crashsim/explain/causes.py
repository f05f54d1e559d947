"""What made a filesystem commit: the program, an unrelated process, or its own timer."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from crashsim.explain.blocks import Role
from crashsim.explain.evidence import Commit
from crashsim.explain.lineage import FileEvent, Trace
from crashsim.explain.survey import Survey
from crashsim.explain.unrelated import UnrelatedData
from crashsim.workloads.marks import END, step_name


class Cause(Enum):
    """Who made a filesystem commit, as far as that can be told.

    :cvar EPILOGUE: the sync with which the recorder ends, after the workload's end.
    :cvar ONE_SYNC: the program had one sync call in that step, and nobody else had any; whether it
        or the filesystem's timer was first, the log does not show.
    """

    EPILOGUE = "the recorder"
    OTHER_PROCESS = "an unrelated process"
    ONE_SYNC = "the program's one sync call, or the filesystem"
    FILESYSTEM = "the filesystem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class CommitCause:
    """Who made a filesystem commit, and what shows it.

    :ivar write: for OTHER_PROCESS: the write with that process's data, sent with the commit.
    :ivar syncs: the program's own sync calls of the step, by the trace; None without a trace.
    """

    cause: Cause
    step: str
    write: int | None = None
    syncs: Sequence[FileEvent] | None = None


def step_at(survey: Survey, position: int) -> str:
    """The step that had begun last before an event; empty before the first and after the last."""
    step = ""
    for mark in survey.log.marks:
        if mark.position >= position:
            break
        step = "" if mark.text == END else step_name(mark.text) or step
    return step


def commit_cause(
    survey: Survey, commit: Commit, unrelated: UnrelatedData, trace: Trace | None
) -> CommitCause:
    """What made the filesystem write a commit.

    - The unrelated process (the `fsync` disturbance) fsyncs what it appended: its data is then
      among the writes since the commit before.
    - Without such a process, and with no sync call of the program in that step, only the filesystem
      itself is left (its timer, or a need for space).
    - Everything else cannot be told apart by the log and the trace.
    """
    position = int(survey.log.requests.submitted_at[commit.write])
    if any(mark.text == END and mark.position < position for mark in survey.log.marks):
        return CommitCause(Cause.EPILOGUE, "")
    step = step_at(survey, position)
    syncs = None
    if trace is not None and step in trace.steps:
        syncs = [event for event in trace.syncs if event.step == step]
    if unrelated.fsyncs:
        write = _unrelated_write(survey, commit, unrelated)
        cause = Cause.UNKNOWN if write is None else Cause.OTHER_PROCESS
        return CommitCause(cause, step, write, syncs)
    if syncs is None or len(syncs) > 1:
        return CommitCause(Cause.UNKNOWN, step, None, syncs)
    return CommitCause(Cause.ONE_SYNC if syncs else Cause.FILESYSTEM, step, None, syncs)


def _unrelated_write(survey: Survey, commit: Commit, unrelated: UnrelatedData) -> int | None:
    """The last write with the unrelated process's data after the last commit and up to this one."""
    for number in reversed(_window(survey, commit)):
        # Small files may lie inside tree blocks.
        metadata = any(block.role is Role.METADATA for block in survey.writes[number].blocks)
        if unrelated.has_fsynced(survey.log.payload(number), anywhere=metadata):
            return number
    return None


def _window(survey: Survey, commit: Commit) -> list[int]:
    """The writes after the end of the transaction before the commit, and up to the commit."""
    window: list[int] = []
    for number, write in survey.writes.items():
        if number > commit.write:
            break
        ends = any(block.role is Role.COMMIT for block in write.blocks)
        if ends and number not in commit.writes:
            window.clear()
        else:
            window.append(number)
    return window

"""The wording of explanations."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from crashsim.explain.causes import Cause, CommitCause
from crashsim.explain.components import Component
from crashsim.explain.lineage import FileEvent
from crashsim.explain.missing import Missing, MissingKind

_RUNS_SHOWN = 4


def sentence(text: str) -> str:
    """With a full stop at its end."""
    return text if text.endswith(".") else f"{text}."


def numbers(noun: str, values: Sequence[int]) -> str:
    """`write 3`, `writes 3-5 and 9`; of more than four runs only how many there are, and where."""
    ordered = sorted(set(values))
    runs: list[tuple[int, int]] = []
    for value in ordered:
        if runs and runs[-1][1] == value - 1:
            runs[-1] = runs[-1][0], value
        else:
            runs.append((value, value))
    if len(runs) > _RUNS_SHOWN:
        return f"{len(ordered)} {noun}s from {ordered[0]} to {ordered[-1]}"
    plural = "s" if len(ordered) > 1 else ""
    shown = [str(a) if a == b else f"{a}-{b}" for a, b in runs]
    joined = shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"
    return f"{noun}{plural} {joined}"


def cause(found: CommitCause) -> str:
    """What made the filesystem commit, as the end of a sentence."""
    if found.cause is Cause.EPILOGUE:
        return ", with the sync that ends the recording, after the workload's end"
    if found.cause is Cause.OTHER_PROCESS:
        own = (
            f"; the program made {_count(found.syncs)} of its own in that step"
            if found.syncs
            else ""
        )
        return f", forced by an unrelated process's fsync (its data is write {found.write}){own}"
    if found.cause is Cause.ONE_SYNC and found.syncs:
        return f"; the one sync call of step `{found.step}` is {_by(found.syncs[0])}"
    if found.cause is Cause.FILESYSTEM:
        return f", on the filesystem's own account: nothing asked for a sync in `{found.step}`"
    return ", for a reason that could not be told from the log"


def _count(syncs: Sequence[FileEvent] | None) -> str:
    count = len(syncs or ())
    return f"{count} sync call{'' if count == 1 else 's'}"


def _by(event: FileEvent) -> str:
    return f"{event.call} of `{event.path or '/'}` by `{event.command}`"


def missing(found: Missing) -> str:
    """What the program did and did not do for a file, as a sentence."""
    if found.kind is MissingKind.NOT_TRACED:
        return f"Which calls wrote `{found.path}` could not be told: the trace does not have it."
    writer = found.last_write.command if found.last_write is not None else "the program"
    call = found.published.call if found.published is not None else ""
    into = f" before {call} gave it its name" if call else ""
    text = _DONE[found.kind].format(
        writer=f"`{writer}`",
        name=f"`{found.written_as}`",
        into=into,
        path=f"`{found.path}`",
        directory=f"`{found.directory}`" if found.directory else "that holds it, the root",
    )
    if found.kind is MissingKind.SYNC_AFTER_PUBLISH and found.sync is not None:
        text += f" ({_by(found.sync)})"
    if found.kind is MissingKind.WRITEOUT_ONLY and found.other_sync is not None:
        text += f"; {_by(found.other_sync)} came in between, which flushes the cache"
    return sentence(text)


_DONE: Mapping[MissingKind, str] = MappingProxyType(
    {
        MissingKind.NEVER_SYNCED: "{writer} never synced {name}{into}, nor afterwards",
        MissingKind.WRITTEN_AFTER_SYNC: "{writer} synced {name} and then wrote to it again{into}",
        MissingKind.SYNC_AFTER_PUBLISH: "{writer} did not sync {name}{into}, but only after it",
        MissingKind.WRITEOUT_ONLY: "{writer} only called sync_file_range for {name}{into}: that "
        "sends pages to the disk, and flushes neither its cache nor any metadata",
        MissingKind.TRUNCATED_IN_PLACE: "{writer} truncated {path} and wrote it anew in place: "
        "until that is durable there is no whole version of it",
        MissingKind.IN_PLACE: "{writer} wrote {path} under its final name and never synced it",
        MissingKind.DIRECTORY_NOT_SYNCED: "{writer} synced {name}{into}, but never the directory "
        "{directory}",
        MissingKind.NOTHING: "{writer} synced {name}{into} and then its directory: no call was "
        "missing",
    }
)


def advice(found: Missing) -> str:
    """Which call would have helped, for any program; empty where none is known."""
    match found.kind:
        case MissingKind.NEVER_SYNCED | MissingKind.WRITTEN_AFTER_SYNC:
            text = f"An fsync of it between the last write and {_publication(found)} was missing"
        case MissingKind.SYNC_AFTER_PUBLISH | MissingKind.WRITEOUT_ONLY:
            text = f"An fsync of it before {_publication(found)} was missing"
        case MissingKind.TRUNCATED_IN_PLACE:
            text = "Writing a new file, fsyncing it and renaming it over the old one avoids that"
        case MissingKind.IN_PLACE:
            text = "An fsync of it was missing"
        case MissingKind.DIRECTORY_NOT_SYNCED:
            text = f"An fsync of the directory after {_publication(found)} was missing"
        case MissingKind.NOTHING | MissingKind.NOT_TRACED:
            return ""
    return sentence(text)


def directory_advice(found: Missing) -> str:
    """For a directory entry that is not on the disk: that its directory was not synced, either."""
    told = (MissingKind.DIRECTORY_NOT_SYNCED, MissingKind.NOTHING, MissingKind.NOT_TRACED)
    if found.published is None or found.directory_synced or found.kind in told:
        return ""
    where = f"Its directory, `{found.directory}`," if found.directory else "The root directory"
    return sentence(f"{where} was not synced after {_publication(found)}, either")


def git_advice(found: Missing, component: Component) -> str:
    """Which setting of git adds the missing call; empty where none is known."""
    match found.kind:
        case MissingKind.NOTHING | MissingKind.NOT_TRACED:
            return ""
        case MissingKind.DIRECTORY_NOT_SYNCED:
            return "git never syncs a directory, and no setting makes it do so."
        case MissingKind.WRITEOUT_ONLY if component.name:
            return sentence(
                f"`core.fsyncMethod=fsync` syncs {component.kind} before {_publication(found)}"
            )
    if not component.name:
        return sentence(f"An fsync before {_publication(found)} was missing; {component.advice()}")
    return sentence(f"An fsync before {_publication(found)} was missing: {component.advice()}")


def _publication(found: Missing) -> str:
    return f"the {found.published.call}" if found.published is not None else "it is relied on"

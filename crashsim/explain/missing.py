"""Which sync a program left out, for one file, from the trace of a run."""

import posixpath
from dataclasses import dataclass
from enum import Enum

from crashsim.explain.lineage import EventKind, FileEvent, Trace, TracedFile


class MissingKind(Enum):
    """What there was between a file's last write and the moment others could see it."""

    NEVER_SYNCED = "never synced"
    WRITTEN_AFTER_SYNC = "written again after its last sync"
    SYNC_AFTER_PUBLISH = "synced only after it got its name"
    WRITEOUT_ONLY = "written out, not flushed"
    TRUNCATED_IN_PLACE = "truncated and rewritten in place"
    IN_PLACE = "written under its final name and not synced"
    DIRECTORY_NOT_SYNCED = "synced, but its directory was not"
    NOTHING = "synced, and its directory too"
    NOT_TRACED = "not in the trace"


@dataclass(frozen=True, slots=True)
class Missing:
    """What a program did, and did not do, to make one file durable.

    :ivar path: the file's name, relative to the filesystem's root.
    :ivar written_as: the name under which it was written last.
    :ivar published: the call that gave it `path`; None where it was created (or was before) there.
    :ivar last_write: the last write before that, or at all.
    :ivar sync: the sync that came too early, too late, or was only a writeout, or that was right.
    :ivar directory_synced: whether its directory was synced after it got its name.
    :ivar in_place: the file had the name already, and was changed under it.
    :ivar other_sync: for WRITEOUT_ONLY: the sync of another file between the writeout and the
        publication, which flushes the disk's cache.
    """

    kind: MissingKind
    path: str
    written_as: str = ""
    published: FileEvent | None = None
    last_write: FileEvent | None = None
    sync: FileEvent | None = None
    other_sync: FileEvent | None = None
    directory_synced: bool = False
    in_place: bool = False

    @property
    def directory(self) -> str:
        """The directory that holds its name."""
        return posixpath.dirname(self.path)


def what_was_missing(trace: Trace, path: str, step: str = "") -> Missing:
    """What a program left out for the file that had the name `path`.

    :param step: the step that made the version in question; without it, or where no step of that
        name did anything to it, the last version that the trace has.

    Only what the trace shows: a file that it does not have is NOT_TRACED.
    """
    file = _version(trace, path, step)
    if file is None:
        return Missing(MissingKind.NOT_TRACED, path)
    publications = [event for event in file.of(EventKind.NAMED) if event.path == path]
    published = _of_step(publications, step)
    changes = file.of(EventKind.CREATED, EventKind.TRUNCATED, EventKind.WRITTEN)
    if published is None or any(event.index > published.index for event in changes):
        return _in_place(trace, file, path, step)
    return _published(trace, file, path, published)


def _version(trace: Trace, path: str, step: str) -> TracedFile | None:
    files = [file for file in trace.named(path) if any(event.path == path for event in file.events)]
    of_step = [
        file
        for file in files
        if any(event.path == path and event.step == step for event in file.events)
        and not _only_lost_its_name(file, path, step)
    ]
    chosen = of_step or files
    return chosen[-1] if chosen else None


def _only_lost_its_name(file: TracedFile, path: str, step: str) -> bool:
    events = [event for event in file.events if event.path == path and event.step == step]
    return all(event.kind is EventKind.UNNAMED for event in events)


def _of_step(events: list[FileEvent], step: str) -> FileEvent | None:
    of_step = [event for event in events if event.step == step]
    chosen = of_step or events
    return chosen[-1] if chosen else None


def _last(events: list[FileEvent], after: int = 0, before: int | None = None) -> FileEvent | None:
    """The last event with `after` < index < `before`."""
    chosen = [e for e in events if after < e.index and (before is None or e.index < before)]
    return chosen[-1] if chosen else None


def _published(trace: Trace, file: TracedFile, path: str, published: FileEvent) -> Missing:
    writes = file.of(EventKind.CREATED, EventKind.TRUNCATED, EventKind.WRITTEN)
    syncs = file.of(EventKind.SYNCED)
    write = _last(writes, before=published.index)
    written_at = write.index if write else 0
    written_as = write.path if write else file.names[0]
    in_time = _last(syncs, written_at, published.index)
    writeout = _last(file.of(EventKind.WRITEOUT), written_at, published.index)
    later = next((event for event in syncs if event.index > published.index), None)
    other: FileEvent | None = None
    directory_synced = _directory_synced(trace, path, published.index)
    if in_time is not None:
        sync: FileEvent | None = in_time
        kind = MissingKind.NOTHING if directory_synced else MissingKind.DIRECTORY_NOT_SYNCED
    elif writeout is not None:
        kind, sync = MissingKind.WRITEOUT_ONLY, writeout
        other = _last(list(trace.syncs), writeout.index, published.index)
    elif later is not None:
        kind, sync = MissingKind.SYNC_AFTER_PUBLISH, later
    elif syncs and syncs[0].index < written_at:
        kind, sync = MissingKind.WRITTEN_AFTER_SYNC, _last(syncs, before=written_at)
    else:
        kind, sync = MissingKind.NEVER_SYNCED, None
    return Missing(kind, path, written_as, published, write, sync, other, directory_synced)


def _in_place(trace: Trace, file: TracedFile, path: str, step: str) -> Missing:
    changes = file.of(EventKind.CREATED, EventKind.TRUNCATED, EventKind.WRITTEN)
    write = _of_step(changes, step)
    if write is None:
        return Missing(MissingKind.NOT_TRACED, path)
    truncated = _of_step(
        [e for e in file.of(EventKind.TRUNCATED) if e.step == write.step], write.step
    )
    sync = next((e for e in file.of(EventKind.SYNCED) if e.index > write.index), None)
    if truncated is not None:
        kind = MissingKind.TRUNCATED_IN_PLACE
    elif sync is None:
        kind = MissingKind.IN_PLACE
    elif _directory_synced(trace, path, write.index) or not file.of(EventKind.CREATED):
        kind = MissingKind.NOTHING
    else:
        kind = MissingKind.DIRECTORY_NOT_SYNCED
    older = not any(event.step == write.step for event in file.of(EventKind.CREATED))
    return Missing(kind, path, path, None, write, sync, in_place=older)


def _directory_synced(trace: Trace, path: str, after: int) -> bool:
    parent = posixpath.dirname(path)
    return any(
        event.index > after and (event.path == parent or event.call in ("sync", "syncfs"))
        for event in trace.directory_syncs
    )

"""Follow what a program did with its files, from a trace of its system calls."""

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from crashsim.explain import strace
from crashsim.explain.lineage import EventKind, FileEvent, Trace, TracedFile
from crashsim.explain.processes import FORKS, Processes
from crashsim.explain.strace import Call, Descriptor


def read_trace(
    steps: Iterable[tuple[str, Iterable[str]]],
    root: str,
    directories: Mapping[str, str] = MappingProxyType({}),
    existing: Iterable[str] = (),
) -> Trace:
    """Follow the files below `root` through the strace outputs of some steps.

    :param steps: (name, lines of strace) of each step, in order.
    :param root: where the filesystem was mounted, absolute.
    :param directories: step -> the working directory of its first process, absolute; else `root`.
    :param existing: the files that were there before, relative to the root.
    """
    reader = _Reader(root.rstrip("/"), existing)
    names = []
    for name, lines in steps:
        names.append(name)
        calls = list(strace.parse(lines))
        reader.begin_step(name, directories.get(name, root), calls)
        for call in calls:
            reader.take(call)
    return Trace(reader.files, reader.directory_syncs, reader.syncs, names)


_WRITES = frozenset(
    {"write", "writev", "pwrite64", "pwritev", "pwritev2", "ftruncate", "fallocate"}
)
TRACED_CALLS = (
    *("execve", *sorted(FORKS), "chdir", "fchdir", "open", "openat", "openat2", "creat"),
    *(*sorted(_WRITES), "truncate", "copy_file_range", "sendfile", "splice", "mmap"),
    *("fsync", "fdatasync", "msync", "sync", "syncfs", "sync_file_range"),
    *("rename", "renameat", "renameat2", "link", "linkat", "symlink", "symlinkat"),
    *("unlink", "unlinkat", "mkdir", "mkdirat", "rmdir"),
)
"""The calls that `read_trace` understands."""


class _Reader:
    """Follows one trace. Paths inside are relative to the root; None stands for "not below it"."""

    def __init__(self, root: str, existing: Iterable[str]) -> None:
        self.processes = Processes(root)
        self.files: list[TracedFile] = []
        self.directory_syncs: list[FileEvent] = []
        self.syncs: list[FileEvent] = []
        self._names: dict[str, TracedFile] = {}
        self._directories: set[str] = {""}
        self._open: dict[tuple[int, int], TracedFile] = {}
        self._mapped: dict[int, list[str]] = {}
        self._synchronous: set[int] = set()
        self._step = ""
        self._count = 0
        for path in existing:
            self._file(path)

    def begin_step(self, name: str, directory: str, calls: Sequence[Call]) -> None:
        self._step = name
        self._open.clear()
        self._mapped.clear()
        self.processes.begin(directory, calls)

    def take(self, call: Call) -> None:
        """Apply a call that succeeded."""
        self.processes.notice(call)
        handler = _HANDLERS.get(call.name)
        if handler is not None and call.ok:
            # A trace may be garbled: a missing argument is an empty one.
            handler(self, replace(call, arguments=(*call.arguments, *[""] * 6)))

    def _path(self, call: Call, at: int, *, with_directory: bool) -> str | None:
        """The path in argument `at`, which for the *at() calls follows its directory."""
        directory = call.arguments[at - 1] if with_directory else None
        return self.processes.below(self.processes.absolute(call, directory, call.arguments[at]))

    # -- files

    def _event(self, call: Call, kind: EventKind, path: str) -> FileEvent:
        self._count += 1
        command = self.processes.command(call.process)
        return FileEvent(self._count, kind, path, call.name, self._step, command, call.end_seconds)

    def _file(self, path: str) -> TracedFile:
        """The file with that name; one that was there before the trace if it is new."""
        if path not in self._names:
            file = TracedFile([path])
            self.files.append(file)
            self._name(file, path)
        return self._names[path]

    def _name(self, file: TracedFile, path: str) -> None:
        self._names[path] = file
        if path not in file.names:
            file.names.append(path)
        parent = posixpath.dirname(path)
        while parent not in self._directories:
            self._directories.add(parent)
            parent = posixpath.dirname(parent)

    def _by_descriptor(self, call: Call, argument: str) -> tuple[TracedFile, str] | None:
        """The file open at a descriptor and its path; None for directories and foreign files."""
        found = strace.descriptor(argument)
        path = self.processes.below(found.path) if found.path else None
        if path is None:
            return None
        if found.deleted:
            file = self._open.get((call.process, found.number))
            return (file, path) if file else None
        return None if path in self._directories else (self._file(path), path)

    def open_at(self, call: Call) -> None:
        self._opened(call, self._path(call, 1, with_directory=True), call.arguments[2])

    def open_plain(self, call: Call) -> None:
        flags = call.arguments[1] if call.name == "open" else "O_CREAT|O_WRONLY|O_TRUNC"
        self._opened(call, self._path(call, 0, with_directory=False), flags)

    def _opened(self, call: Call, path: str | None, flags: str) -> None:
        if path is None or call.result is None:
            return
        if "O_DIRECTORY" in flags:
            self._directories.add(path)
            return
        new = path not in self._names
        if path in self._directories or (new and "O_CREAT" not in flags and "O_TRUNC" not in flags):
            return  # read only, or not known yet: a write will make it known
        file = self._file(path)
        self._open[call.process, call.result] = file
        if "O_SYNC" in flags or "O_DSYNC" in flags:
            self._synchronous.add(id(file))
        if "O_CREAT" in flags and new:
            file.events.append(self._event(call, EventKind.CREATED, path))
        elif "O_TRUNC" in flags:
            file.events.append(self._event(call, EventKind.TRUNCATED, path))

    def write(self, call: Call) -> None:
        self._happened(call, call.arguments[0], EventKind.WRITTEN)
        found = self._by_descriptor(call, call.arguments[0])
        # O_SYNC of open(2), and RWF_SYNC of pwritev2(2), or their kin for data alone.
        promised = any(word in call.arguments[-7] for word in ("RWF_SYNC", "RWF_DSYNC"))
        if found is not None and (promised or id(found[0]) in self._synchronous):
            self._happened(call, call.arguments[0], EventKind.SYNCED)

    def write_second(self, call: Call) -> None:
        at = 2 if call.name in ("copy_file_range", "splice") else 0
        self._happened(call, call.arguments[at], EventKind.WRITTEN)

    def mmap(self, call: Call) -> None:
        """A shared, writable mapping counts as a write when it is made: stores are not seen."""
        _, _, protection, flags, file, *_ = call.arguments
        if "MAP_SHARED" in flags and "PROT_WRITE" in protection:
            self._happened(call, file, EventKind.WRITTEN)
            self._mapped.setdefault(call.process, []).append(file)

    def msync(self, call: Call) -> None:
        """Counts for every file that the process has mapped: addresses are not followed."""
        if "MS_SYNC" in call.arguments[2]:
            for file in self._mapped.get(call.process, ()):
                self._happened(call, file, EventKind.SYNCED)

    def truncate(self, call: Call) -> None:
        path = self._path(call, 0, with_directory=False)
        if path is not None:
            self._file(path).events.append(self._event(call, EventKind.TRUNCATED, path))

    def writeout(self, call: Call) -> None:
        self._happened(call, call.arguments[0], EventKind.WRITEOUT)

    def _happened(self, call: Call, argument: str, kind: EventKind) -> None:
        found = self._by_descriptor(call, argument)
        if found is not None:
            found[0].events.append(self._event(call, kind, found[1]))

    def sync_file(self, call: Call) -> None:
        found: Descriptor = strace.descriptor(call.arguments[0])
        path = self.processes.below(found.path) if found.path else None
        if path is None:
            return
        file = self._by_descriptor(call, call.arguments[0])
        event = self._event(call, EventKind.SYNCED, path)
        self.syncs.append(event)
        if file is not None:
            file[0].events.append(event)
        else:
            self.directory_syncs.append(event)

    def sync_all(self, call: Call) -> None:
        event = self._event(call, EventKind.SYNCED, "")
        self.syncs.append(event)
        self.directory_syncs.append(event)
        for file in self.files:
            file.events.append(event)

    def rename(self, call: Call) -> None:
        at = call.name != "rename"
        self._renamed(
            call,
            self._path(call, 1 if at else 0, with_directory=at),
            self._path(call, 3 if at else 1, with_directory=at),
        )

    def _renamed(self, call: Call, old: str | None, new: str | None) -> None:
        if old is None:
            if new is not None:
                self._names.pop(new, None)  # something from elsewhere took the name
            return
        moved = {old: new}
        if old not in self._names:
            inside = [path for path in self._names if path.startswith(old + "/")]
            moved = {path: new and new + path[len(old) :] for path in inside}
            if not inside:
                self._file(old)
                moved = {old: new}
        for source, target in moved.items():
            file = self._names.pop(source)
            if target is None:
                file.events.append(self._event(call, EventKind.UNNAMED, source))
            else:
                self._publish(call, file, target)

    def _publish(self, call: Call, file: TracedFile, path: str) -> None:
        event = self._event(call, EventKind.NAMED, path)
        replaced = self._names.get(path)
        if replaced is not None and replaced is not file:
            replaced.events.append(self._event(call, EventKind.UNNAMED, path))
        self._name(file, path)
        file.events.append(event)

    def link(self, call: Call) -> None:
        at = call.name == "linkat"
        old = self._path(call, 1 if at else 0, with_directory=at)
        new = self._path(call, 3 if at else 1, with_directory=at)
        if old is not None and new is not None:
            self._publish(call, self._file(old), new)

    def symlink(self, call: Call) -> None:
        at = call.name == "symlinkat"
        path = self._path(call, 2 if at else 1, with_directory=at)
        if path is not None:
            self._file(path).events.append(self._event(call, EventKind.CREATED, path))

    def unlink(self, call: Call) -> None:
        at = call.name == "unlinkat"
        path = self._path(call, 1 if at else 0, with_directory=at)
        file = self._names.pop(path, None) if path is not None else None
        if file is not None and path is not None:
            file.events.append(self._event(call, EventKind.UNNAMED, path))

    def mkdir(self, call: Call) -> None:
        at = call.name == "mkdirat"
        path = self._path(call, 1 if at else 0, with_directory=at)
        if path is not None:
            self._directories.add(path)


_HANDLERS: Mapping[str, Callable[[_Reader, Call], None]] = MappingProxyType(
    {
        "openat": _Reader.open_at,
        "openat2": _Reader.open_at,
        "open": _Reader.open_plain,
        "creat": _Reader.open_plain,
        **dict.fromkeys(_WRITES, _Reader.write),
        **dict.fromkeys(("copy_file_range", "splice", "sendfile"), _Reader.write_second),
        "mmap": _Reader.mmap,
        "msync": _Reader.msync,
        "truncate": _Reader.truncate,
        "sync_file_range": _Reader.writeout,
        **dict.fromkeys(("fsync", "fdatasync"), _Reader.sync_file),
        **dict.fromkeys(("sync", "syncfs"), _Reader.sync_all),
        **dict.fromkeys(("rename", "renameat", "renameat2"), _Reader.rename),
        **dict.fromkeys(("link", "linkat"), _Reader.link),
        **dict.fromkeys(("symlink", "symlinkat"), _Reader.symlink),
        **dict.fromkeys(("unlink", "unlinkat", "rmdir"), _Reader.unlink),
        **dict.fromkeys(("mkdir", "mkdirat"), _Reader.mkdir),
    }
)

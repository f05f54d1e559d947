"""Disturbances, the guest's side: processes that use the filesystem while a workload runs.

Part of the guest's agent: standard library only, and Linux only. `start` forks from the agent, so
that a disturbance costs no second interpreter; `stop_all` ends them all. Everything that a
disturbance writes is below `<root>/<directory>`.
"""

import contextlib
import ctypes
import errno
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

SYNC_FILE_RANGE_WRITE = 2  # linux/fs.h

_running: dict[int, str] = {}
"""Process id -> kind, of the disturbances that were started and not yet reaped."""


class DisturbanceFailed(Exception):
    """A disturbance ended on its own, which none of them ever does unless something is broken."""


def start(specification: Mapping[str, Any]) -> int:
    """Start a disturbance; its process id.

    :param specification: `kind`, `seed`, `root` (where the filesystem is mounted), `directory` (the
        disturbances' own, relative to it), and the kind's parameters. ValueError for an unknown
        kind.
    """
    kind = str(specification["kind"])
    if kind not in _KINDS:
        raise ValueError(
            f"unknown disturbance {kind!r}: the agent knows {', '.join(sorted(_KINDS))}"
        )
    directory = os.path.join(str(specification["root"]), str(specification["directory"]))
    os.makedirs(directory, exist_ok=True)
    process = os.fork()
    if process == 0:
        _become(kind, directory, specification)
    _running[process] = kind
    return process


def stop_all() -> int:
    """Kill and reap every disturbance; how many there were.

    Raises DisturbanceFailed, with all of them gone, when one had ended by itself before.
    """
    failed = []
    count = len(_running)
    for process in _running:
        # Not yet reaped, so the id is still ours, alive or not.
        os.kill(process, signal.SIGKILL)
    for process, kind in list(_running.items()):
        _, status = os.waitpid(process, 0)
        del _running[process]
        if not (os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL):
            code = os.waitstatus_to_exitcode(status)
            failed.append(f"{kind} ended by itself: {errno.errorcode.get(code, code)}")
    if failed:
        raise DisturbanceFailed("; ".join(failed))
    return count


def owns(process: int) -> bool:
    """Whether `process` is a disturbance: the agent must leave its reaping to `stop_all`."""
    return process in _running


def _become(kind: str, directory: str, specification: Mapping[str, Any]) -> None:
    """Be the disturbance, in the forked child; never returns. Its exit status is an errno."""
    status = errno.EPROTO
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
        # The agent's channel to the host above all: a copy here would keep it open.
        os.closerange(3, os.sysconf("SC_OPEN_MAX"))
        _KINDS[kind](directory, random.Random(int(specification["seed"])), specification)
    except OSError as error:
        status = error.errno or errno.EPROTO
    finally:
        os._exit(status)


def _pause(chooser: random.Random, parameters: Mapping[str, Any]) -> None:
    low, high = float(parameters["pause_ms_min"]), float(parameters["pause_ms_max"])
    time.sleep(chooser.uniform(low, high) / 1000)


def _fsync(directory: str, chooser: random.Random, parameters: Mapping[str, Any]) -> None:
    """Append to a file of one's own and fsync it, over and over; now and then replace another one.

    To replace is to write, fsync, rename, and fsync the directory, as a careful program does. It
    makes filesystems commit that have a shortcut for an fsync of one file: f2fs writes a checkpoint
    for a directory's fsync only, with everybody's names in it.

    The file starts anew when it is full, so that both appends (which change metadata) and a
    truncate take part.
    """
    file = os.open(os.path.join(directory, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    parent = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    while True:
        content = chooser.randbytes(int(parameters["append_bytes"]))
        with _full_disk_tolerated():
            if chooser.randrange(100) < int(parameters["replace_percent"]):
                _replace(directory, content)
                os.fsync(parent)
            if os.fstat(file).st_size >= int(parameters["file_bytes_max"]):
                os.ftruncate(file, 0)
            os.write(file, content)
            os.fsync(file)
        _pause(chooser, parameters)


def _replace(directory: str, content: bytes) -> None:
    temporary = os.path.join(directory, "state.new")
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    try:
        os.write(file, content)
        os.fsync(file)
    finally:
        os.close(file)
    os.rename(temporary, os.path.join(directory, "state"))


def _writer(directory: str, chooser: random.Random, parameters: Mapping[str, Any]) -> None:
    """Stream a large file up to its limit, without any sync, then only keep it open."""
    file = os.open(os.path.join(directory, "stream"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for _ in range(int(parameters["total_bytes_max"]) // int(parameters["chunk_bytes"])):
        with _full_disk_tolerated():
            os.write(file, chooser.randbytes(int(parameters["chunk_bytes"])))
        _pause(chooser, parameters)
    while True:
        signal.pause()


@contextlib.contextmanager
def _full_disk_tolerated() -> Iterator[None]:
    """A full filesystem is the workload's business: go on, there may be room again later."""
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise


def _writeback(directory: str, chooser: random.Random, parameters: Mapping[str, Any]) -> None:
    """Have the dirty pages of one file after another written, files picked at random.

    sync_file_range(2) with SYNC_FILE_RANGE_WRITE starts the writing of dirty pages and does
    nothing else: no metadata, no cache flush. That is what the kernel does on its own under memory
    pressure, file by file, in an order that no program can know.
    """
    library = ctypes.CDLL(None, use_errno=True)
    library.sync_file_range.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    root = os.path.dirname(directory)
    while True:
        path = _random_file(root, chooser)
        if path is not None:
            _write_back(library, path)
        _pause(chooser, parameters)


def _write_back(library: ctypes.CDLL, path: str) -> None:
    try:
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.EACCES):
            raise
        return  # it went away, or is no regular file any more: there will be others
    try:
        if library.sync_file_range(file, 0, 0, SYNC_FILE_RANGE_WRITE) != 0:
            code = ctypes.get_errno()
            if code not in (errno.ESPIPE, errno.ENOSPC):
                raise OSError(code, os.strerror(code))
    finally:
        os.close(file)


def _random_file(root: str, chooser: random.Random) -> str | None:
    """A regular file below `root`, found by random steps down; None where they end nowhere."""
    path = root
    while True:
        try:
            with os.scandir(path) as entries:
                children = sorted(
                    (entry.name, entry.is_dir(follow_symlinks=False))
                    for entry in entries
                    if not entry.is_symlink()
                )
        except (FileNotFoundError, NotADirectoryError):
            return None  # the workload removed it meanwhile
        if not children:
            return None
        name, is_directory = chooser.choice(children)
        path = os.path.join(path, name)
        if not is_directory:
            return path


_KINDS: dict[str, Callable[[str, random.Random, Mapping[str, Any]], None]] = {
    "fsync": _fsync,
    "writer": _writer,
    "writeback": _writeback,
}

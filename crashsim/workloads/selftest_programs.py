"""Programs that make each classic mistake, and their careful twins: what `crashsim selftest` runs.

Runs in a guest as a script of its own: standard library only. One function a program; `careful`
says which twin runs, and the two differ in nothing but what keeps the mistake out.

    selftest_programs.py prepare NAME...    make each program's directories and their old contents
    selftest_programs.py run NAME...        run each program, both twins, in their directories

The working directory is the root of the filesystem under test.
"""

import ctypes
import errno
import os
import subprocess
import sys
import time
from collections.abc import Callable

CARELESS, CAREFUL = "careless", "careful"
BEGUN, SAVED = "begun", "saved"
"""The marks that a program makes: `begun NAME TWIN`, then `saved NAME TWIN` as its promise."""

BLOCK_BYTES = 4096
OLD, NEW = b"o" * BLOCK_BYTES, b"n" * BLOCK_BYTES
MANY = 4

DISTURBANCE_LOG = ".crashsim-disturb/log"
WRITE_OUT = 1 | 2 | 4
"""SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER (sync_file_range(2))."""

_library = ctypes.CDLL(None, use_errno=True)
_patience_seconds = 30.0


class Program:
    """What a program has to work with: a directory of its own, and the line to the harness."""

    def __init__(self, name: str, careful: bool) -> None:
        """Name the program's run."""
        self.careful = careful
        self.run = f"{name} {CAREFUL if careful else CARELESS}"
        self.directory = directory(name, careful)

    def path(self, name: str) -> str:
        """A file of the program."""
        return f"{self.directory}/{name}"

    def write(self, name: str, data: bytes, flags: int = os.O_CREAT) -> int:
        """Open a file and write to its beginning; the descriptor."""
        file = os.open(self.path(name), os.O_WRONLY | os.O_CLOEXEC | flags, 0o644)
        if os.write(file, data) != len(data):
            raise OSError(errno.ENOSPC, "a short write", name)
        return file

    def sync_directory(self) -> None:
        """fsync(2) of the program's directory."""
        parent = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(parent)
        os.close(parent)

    def promise(self) -> None:
        """Tell the user that it is saved."""
        mark(f"{SAVED} {self.run}")


def directory(name: str, careful: bool) -> str:
    """Where a twin has its files, relative to the filesystem's root."""
    return f"{name}.{CAREFUL if careful else CARELESS}"


def mark(text: str) -> None:
    """A mark of the recording, made as any user's program makes it."""
    subprocess.run(["crashsim-mark", text], check=True)


def write_out(file: int) -> None:
    """sync_file_range(2): the pages are sent to the disk, which may keep them in its cache."""
    zero = ctypes.c_int64(0)
    _checked(_library.sync_file_range(file, zero, zero, ctypes.c_uint(WRITE_OUT)))


def _checked(status: int) -> None:
    if status != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def while_others_sync() -> None:
    """Be a slow program: go on once an unrelated process has synced a file of its own.

    The third append that is seen from here was made after the fsync of the second had returned.
    Polls, as there is nothing to wait on, and gives up when the patience of all programs is spent.
    """
    global _patience_seconds
    started = time.monotonic()
    changes, seen = 0, _disturbance()
    while changes < 3 and time.monotonic() - started < _patience_seconds:
        time.sleep(0.002)
        now = _disturbance()
        changes, seen = changes + (now != seen), now
    if changes < 3:
        _patience_seconds = 0.0


def _disturbance() -> tuple[int, int]:
    try:
        status = os.stat(DISTURBANCE_LOG)
    except FileNotFoundError:
        return 0, 0
    return status.st_size, status.st_mtime_ns


def no_fsync(program: Program) -> None:
    """It never syncs."""
    file = program.write("value", NEW)
    if program.careful:
        os.fsync(file)
    program.promise()


def wrong_file(program: Program) -> None:
    """It syncs another file."""
    value = program.write("value", NEW)
    other = program.write("other", NEW)
    os.fsync(value if program.careful else other)
    program.promise()


def early_promise(program: Program) -> None:
    """It acknowledges first and syncs then: all is on the disk, in its cache, when it promises."""
    file = program.write("value", NEW, flags=0)
    write_out(file)
    if program.careful:
        os.fdatasync(file)
    program.promise()
    os.fdatasync(file)


def buffered(program: Program) -> None:
    """It syncs a file while the content is still in a buffer of its own (stdio, fflush(3))."""
    with open(program.path("value"), "wb", buffering=2 * BLOCK_BYTES) as file:
        file.write(NEW)
        if program.careful:
            file.flush()
        os.fsync(file.fileno())
        program.promise()


def trusted(program: Program) -> None:
    """It takes an object for saved because it is there: whoever wrote it never synced it."""
    first = program.write("object", NEW, flags=os.O_CREAT | os.O_EXCL)
    os.close(first)
    if os.path.exists(program.path("object")):
        if program.careful:
            again = os.open(program.path("object"), os.O_RDONLY)
            os.fsync(again)
            program.sync_directory()
        program.promise()


def unsynced_directory(program: Program) -> None:
    """It syncs the new content but not the name that it gives it then."""
    file = program.write("value.new", NEW)
    os.fsync(file)
    os.rename(program.path("value.new"), program.path("value"))
    if program.careful:
        program.sync_directory()
    program.promise()


def late_fsync(program: Program) -> None:
    """It gives the file its name first and syncs it then."""
    file = program.write("value.new", NEW)
    if program.careful:
        os.fsync(file)
    os.rename(program.path("value.new"), program.path("value"))
    while_others_sync()
    os.fsync(file)
    program.sync_directory()
    program.promise()


def truncated(program: Program) -> None:
    """It empties the file in place before it writes the new content."""
    if program.careful:
        file = program.write("value.new", NEW)
        os.fsync(file)
        while_others_sync()
        os.rename(program.path("value.new"), program.path("value"))
    else:
        file = os.open(program.path("value"), os.O_WRONLY | os.O_TRUNC)
        while_others_sync()
        os.write(file, NEW)
        os.fsync(file)
    program.sync_directory()
    program.promise()


def early_unlink(program: Program) -> None:
    """It removes the old copy before the new one is durable."""
    file = program.write("copy-2", NEW)
    if program.careful:
        os.fsync(file)
        program.sync_directory()
    os.unlink(program.path("copy-1"))
    while_others_sync()
    os.fsync(file)
    program.sync_directory()
    program.promise()


def write_out_only(program: Program) -> None:
    """It takes sync_file_range(2) for fsync(2): nothing makes the disk empty its cache."""
    file = program.write("value", NEW, flags=0)
    if program.careful:
        os.fdatasync(file)
    else:
        write_out(file)
    program.promise()


def unordered(program: Program) -> None:
    """It counts on two writes to reach the disk in the order in which they were sent."""
    content = program.write("content", NEW, flags=0)
    if program.careful:
        os.fdatasync(content)
    else:
        write_out(content)
    pointer = program.write("pointer", NEW, flags=0)
    write_out(pointer)
    os.fdatasync(content)
    os.fdatasync(pointer)
    program.promise()


def torn(program: Program) -> None:
    """It counts on a block to be written wholly or not at all."""
    if program.careful:
        file = program.write("value.new", NEW)
        os.fsync(file)
        os.rename(program.path("value.new"), program.path("value"))
        program.sync_directory()
    else:
        file = program.write("value", NEW, flags=0)
        os.fdatasync(file)
    program.promise()


def batch(program: Program) -> None:
    """It writes out many files and syncs one more, for a filesystem that carries them along."""
    for number in range(MANY):
        file = program.write(f"object-{number}", NEW)
        write_out(file)
        os.close(file)
    file = program.write("barrier", NEW)
    if program.careful:
        _checked(_library.syncfs(file))
    else:
        os.fsync(file)
    program.promise()


PROGRAMS: dict[str, tuple[Callable[[Program], None], tuple[str, ...]]] = {
    "no-fsync": (no_fsync, ()),
    "wrong-file": (wrong_file, ()),
    "early-promise": (early_promise, ("value",)),
    "buffered": (buffered, ()),
    "trusted": (trusted, ()),
    "unsynced-directory": (unsynced_directory, ("value",)),
    "late-fsync": (late_fsync, ()),
    "truncated": (truncated, ("value",)),
    "early-unlink": (early_unlink, ("copy-1",)),
    "write-out-only": (write_out_only, ("value",)),
    "unordered": (unordered, ("content", "pointer")),
    "torn": (torn, ("value",)),
    "batch": (batch, ()),
}
"""Name -> (program, the files that are there, old, when it begins)."""


def _prepare(name: str) -> None:
    for careful in (False, True):
        os.mkdir(directory(name, careful))
        for file in PROGRAMS[name][1]:
            os.close(Program(name, careful).write(file, OLD))


def _run(name: str) -> None:
    for careful in (False, True):
        program = Program(name, careful)
        mark(f"{BEGUN} {program.run}")
        PROGRAMS[name][0](program)


if __name__ == "__main__":
    for each in sys.argv[2:]:
        {"prepare": _prepare, "run": _run}[sys.argv[1]](each)

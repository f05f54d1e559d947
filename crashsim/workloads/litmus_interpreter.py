"""The language of litmus tests: a line is one system call, run through a port.

In a guest this file is a script of its own (standard library only) and the port is the operating
system; in the model the port is a simulated one. So one text means the same to both.

| line | call |
|---|---|
| `open H PATH WORD...` | open(2) as handle H: read, write, create, exclusive, truncate, append, |
|                       | directory |
| `write H LETTERS`     | write(2) of a block of each letter, from H's position on |
| `resize H BLOCKS`     | ftruncate(2) |
| `fsync H` `fdatasync H` `syncfs H` | the calls of these names |
| `writeout H`          | sync_file_range(2): write all pages and wait for them |
| `close H`             | close(2) |
| `rename A B` `link A B` `unlink A` `mkdir A` `rmdir A` | the calls of these names |
| `others fsync`        | an unrelated process appends to a file of its own and syncs it |
| `others commit`       | the filesystem's own periodic commit or checkpoint happens now |
| `others writeback`    | the kernel writes the test's dirty pages out early |

The last three are for guests: they stand for what a model must expect at any time.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

BLOCK_BYTES = 4096
DIRECTORY = "t"
"""Where the test's files are, whichever test it is."""

OTHERS = "others"
"""Where the unrelated process has its files."""

WRITE_OUT = 1 | 2 | 4
"""SYNC_FILE_RANGE_WAIT_BEFORE, _WRITE and _WAIT_AFTER (sync_file_range(2))."""

COMMIT_IOCTLS = {
    # BTRFS_IOC_START_SYNC and BTRFS_IOC_WAIT_SYNC (linux/btrfs.h): commit the transaction, as the
    # timer does, without the write-out of data that syncfs(2) begins with.
    "btrfs": ((0x80089418, 8), (0x40089416, 8)),
    "f2fs": ((0xF507, 0),),  # F2FS_IOC_WRITE_CHECKPOINT (linux/f2fs.h)
}
"""Filesystem -> the ioctl requests, and the bytes of their argument, that make it commit."""

_FLAGS = {
    "read": os.O_RDONLY,
    "write": os.O_WRONLY,
    "create": os.O_CREAT,
    "exclusive": os.O_EXCL,
    "truncate": os.O_TRUNC,
    "append": os.O_APPEND,
    "directory": os.O_DIRECTORY,
}


class Interpreter:
    """Runs lines through a port (as `impl`'s `Port`), in a directory."""

    def __init__(self, port: Any, directory: str) -> None:
        """Take the port; paths of lines are relative to `directory`."""
        self._port = port
        self._directory = directory
        self._handles: dict[str, int] = {}

    def run(self, line: str) -> None:
        """Run one line. Raises OSError as its call does, KeyError for a word that is none."""
        verb, *words = line.split()
        if verb in ("rename", "link", "unlink", "mkdir", "rmdir"):
            call = {"mkdir": "make_directory", "rmdir": "remove_directory"}.get(verb, verb)
            getattr(self._port, call)(*(self._path(word) for word in words))
        elif verb == "open":
            handle, path, *flags = words
            total = sum(_FLAGS[flag] for flag in flags)
            self._handles[handle] = self._port.open(self._path(path), total, 0o644)
        elif verb == "write":
            self._write(self._handles[words[0]], words[1])
        elif verb == "resize":
            self._port.truncate(self._handles[words[0]], int(words[1]) * BLOCK_BYTES)
        elif verb == "writeout":
            self._port.sync_file_range(self._handles[words[0]], 0, 0, WRITE_OUT)
        elif verb == "close":
            self._port.close(self._handles.pop(words[0]))
        else:
            call = {"syncfs": "sync_filesystem"}.get(verb, verb)
            if call not in ("fsync", "fdatasync", "sync_filesystem"):
                raise KeyError(verb)
            getattr(self._port, call)(self._handles[words[0]])

    def close_all(self) -> None:
        """Close what is still open."""
        for handle in list(self._handles):
            self.run(f"close {handle}")

    def _path(self, path: str) -> str:
        return f"{self._directory}/{path}"

    def _write(self, descriptor: int, letters: str) -> None:
        data = b"".join(letter.encode() * BLOCK_BYTES for letter in letters)
        if self._port.write(descriptor, data) != len(data):
            raise OSError(f"a short write of {len(data)} bytes")


class SystemPort:
    """What of a port the lines need, by the operating system."""

    open = staticmethod(os.open)
    close = staticmethod(os.close)
    write = staticmethod(os.write)
    truncate = staticmethod(os.ftruncate)
    fsync = staticmethod(os.fsync)
    fdatasync = staticmethod(os.fdatasync)
    rename = staticmethod(os.rename)
    link = staticmethod(os.link)
    unlink = staticmethod(os.unlink)
    make_directory = staticmethod(os.mkdir)
    remove_directory = staticmethod(os.rmdir)

    def __init__(self) -> None:
        """Load the C library, for the calls that `os` lacks."""
        import ctypes

        self._library = ctypes.CDLL(None, use_errno=True)
        self._library.sync_file_range.argtypes = [
            *(ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)
        ]
        self._errno = ctypes.get_errno

    def sync_file_range(self, descriptor: int, offset: int, count: int, flags: int) -> None:
        """sync_file_range(2)."""
        self._checked(self._library.sync_file_range(descriptor, offset, count, flags))

    def sync_filesystem(self, descriptor: int) -> None:
        """syncfs(2)."""
        self._checked(self._library.syncfs(descriptor))

    def _checked(self, status: int) -> None:
        if status != 0:
            raise OSError(self._errno(), os.strerror(self._errno()))


class Others:
    """What happens meanwhile that the test did not ask for."""

    def __init__(self, port: SystemPort, filesystem: str) -> None:
        """Begin with a file to append to."""
        self._port = port
        self._ioctls = COMMIT_IOCTLS.get(filesystem, ())
        os.makedirs(OTHERS, exist_ok=True)
        self._file = os.open(f"{OTHERS}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def run(self, what: str) -> None:
        """`fsync`, `commit` or `writeback`."""
        {"fsync": self._fsync, "commit": self._commit, "writeback": self._write_back}[what]()

    def sync(self) -> None:
        """Make everything durable."""
        self._port.sync_filesystem(self._file)

    def _fsync(self) -> None:
        os.write(self._file, b"x" * 512)
        os.fsync(self._file)

    def _commit(self) -> None:
        import fcntl

        argument: Any = b""
        for request, length in self._ioctls:
            argument = fcntl.ioctl(self._file, request, argument or bytes(length))

    def _write_back(self) -> None:
        for directory, _, names in os.walk(DIRECTORY):
            for name in names:
                file = os.open(os.path.join(directory, name), os.O_RDONLY)
                self._port.sync_file_range(file, 0, 0, WRITE_OUT)
                os.close(file)


def _mark(text: str) -> None:
    subprocess.run(["crashsim-mark", text], check=True)


def _clear(directory: str) -> None:
    for place, directories, files in os.walk(directory, topdown=False):
        for name in files:
            os.unlink(os.path.join(place, name))
        for name in directories:
            os.rmdir(os.path.join(place, name))


def run_all(filesystem: str, runs: Sequence[dict[str, Any]], mark: Callable[[str], None]) -> None:
    """Run tests one after the other, in the working directory.

    :param runs: each with `name`, and the lines of its phases `setup`, `run` and `after`. The marks
        are `begin NAME`, `done NAME` and `end NAME`; what the set-up did is durable at the first.
    """
    port = SystemPort()
    others = Others(port, filesystem)
    with contextlib.suppress(FileExistsError):
        os.mkdir(DIRECTORY)
    for run in runs:
        _clear(DIRECTORY)
        _phase(Interpreter(port, DIRECTORY), others, run["setup"])
        others.sync()
        mark(f"begin {run['name']}")
        interpreter = Interpreter(port, DIRECTORY)
        _phase(interpreter, others, run["run"], close=False)
        mark(f"done {run['name']}")
        _phase(interpreter, others, run["after"])
        mark(f"end {run['name']}")


def _phase(
    interpreter: Interpreter, others: Others, lines: Sequence[str], *, close: bool = True
) -> None:
    for line in lines:
        if line.startswith("others "):
            others.run(line.split()[1])
        else:
            interpreter.run(line)
    if close:
        interpreter.close_all()


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as plan:
        run_all(sys.argv[2], json.load(plan), _mark)

# ruff: noqa: D102 - the methods are the port's, documented there.
"""Counting: how often each system call of the port was made, on which component's files.

What is counted is what the store asks for, from its first call on: the start of the interpreter is
not in it. The names are those of the kernel (`strace -c`): a test holds the two to each other.
"""

import json
import os
from collections import Counter
from collections.abc import Sequence

from impl.durability.classify import component_of
from impl.durability.components import component_name
from impl.durability.port import Bytes, Port, write_all

OUTSIDE = "outside"
"""What is not in the repository's directory: the working tree, the user's configuration."""

SCHEMA = "refgit.stats/1"


class CountingPort:
    """A port that counts the calls of another one, failed ones too.

    :ivar calls: (path, system call) -> how often it was made; a descriptor counts for the path by
        which it was opened.
    """

    def __init__(self, port: Port) -> None:
        """:param port: what makes the calls."""
        self._port = port
        self._paths: dict[int, str] = {}
        self.calls: Counter[tuple[str, str]] = Counter()

    def _count(self, call: str, path: str) -> None:
        self.calls[path, call] += 1

    def _count_open(self, call: str, descriptor: int) -> None:
        self.calls[self._paths.get(descriptor, ""), call] += 1

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        self._count("openat", path)
        descriptor = self._port.open(path, flags, mode)
        self._paths[descriptor] = path
        return descriptor

    def close(self, descriptor: int) -> None:
        self._count_open("close", descriptor)
        self._paths.pop(descriptor, None)
        self._port.close(descriptor)

    def read(self, descriptor: int, count: int) -> bytes:
        self._count_open("read", descriptor)
        return self._port.read(descriptor, count)

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        self._count_open("pread64", descriptor)
        return self._port.pread(descriptor, count, offset)

    def write(self, descriptor: int, data: Bytes) -> int:
        self._count_open("write", descriptor)
        return self._port.write(descriptor, data)

    def truncate(self, descriptor: int, length: int) -> None:
        self._count_open("ftruncate", descriptor)
        self._port.truncate(descriptor, length)

    def map(self, descriptor: int, length: int) -> Bytes:
        self._count_open("mmap", descriptor)
        return self._port.map(descriptor, length)

    def stat(self, path: str) -> os.stat_result:
        self._count("stat", path)
        return self._port.stat(path)

    def lstat(self, path: str) -> os.stat_result:
        self._count("lstat", path)
        return self._port.lstat(path)

    def fstat(self, descriptor: int) -> os.stat_result:
        self._count_open("fstat", descriptor)
        return self._port.fstat(descriptor)

    def set_times(self, descriptor: int, access_ns: int, modification_ns: int) -> None:
        self._count_open("utimensat", descriptor)
        self._port.set_times(descriptor, access_ns, modification_ns)

    def change_mode(self, descriptor: int, mode: int) -> None:
        self._count_open("fchmod", descriptor)
        self._port.change_mode(descriptor, mode)

    def list_directory(self, path: str) -> Sequence[str]:
        self._count("getdents64", path)
        return self._port.list_directory(path)

    def make_directory(self, path: str, mode: int = 0o777) -> None:
        self._count("mkdir", path)
        self._port.make_directory(path, mode)

    def remove_directory(self, path: str) -> None:
        self._count("rmdir", path)
        self._port.remove_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._count("rename", target)
        self._port.rename(source, target)

    def link(self, source: str, target: str) -> None:
        self._count("link", target)
        self._port.link(source, target)

    def unlink(self, path: str) -> None:
        self._count("unlink", path)
        self._port.unlink(path)

    def symlink(self, content: str, path: str) -> None:
        self._count("symlink", path)
        self._port.symlink(content, path)

    def read_link(self, path: str) -> str:
        self._count("readlink", path)
        return self._port.read_link(path)

    def fsync(self, descriptor: int) -> None:
        self._count_open("fsync", descriptor)
        self._port.fsync(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        self._count_open("fdatasync", descriptor)
        self._port.fdatasync(descriptor)

    def sync_file_range(self, descriptor: int, offset: int, count: int, flags: int) -> None:
        self._count_open("sync_file_range", descriptor)
        self._port.sync_file_range(descriptor, offset, count, flags)

    def sync_filesystem(self, descriptor: int) -> None:
        self._count_open("syncfs", descriptor)
        self._port.sync_filesystem(descriptor)

    def report(self, git_directory: str | None) -> dict[str, dict[str, int]]:
        """Component -> system call -> how often, both sorted.

        :param git_directory: what is not below it is `OUTSIDE`; everything, if there is none.
        """
        counts: Counter[tuple[str, str]] = Counter()
        for (path, call), number in self.calls.items():
            counts[_component_of(path, git_directory), call] += number
        sorted_calls: dict[str, dict[str, int]] = {}
        for (component, call), number in sorted(counts.items()):
            sorted_calls.setdefault(component, {})[call] = number
        return sorted_calls


def _component_of(path: str, git_directory: str | None) -> str:
    if git_directory is None or not f"{path}/".startswith(f"{git_directory}/"):
        return OUTSIDE
    return component_name(component_of(path[len(git_directory) + 1 :]))


def write_statistics(
    counting: CountingPort, port: Port, path: str, git_directory: str | None
) -> None:
    """Write the counts, as JSON, to a file: by a port that does not count. Raises OSError."""
    document = {"schema": SCHEMA, "calls": counting.report(git_directory)}
    text = json.dumps(document, indent=1) + "\n"
    descriptor = port.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    try:
        write_all(port, descriptor, text.encode())
    finally:
        port.close(descriptor)

"""The simulated operating system against the real one: the same calls, the same answers."""

import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from crashsim.model.simulated import Simulated
from crashsim.model.tree import Directory, File, Node, Symlink
from impl.durability.port import OsPort, Port

MEMORY = Path("/dev/shm")
"""A tmpfs where there is one: the calls are the kernel's, whatever is below."""

NAMES = ["a", "b", "d", "d/x", "d/y", "d/e", "d/e/z", "l"]
PATHS = [
    *NAMES, "a/", "d/", "l/", "./a", "d/.", "d/..", "d/../b", "d//x", "a/x", "l/x", "missing/x",
    ".", "n" * 255, "n" * 256, "d/" + "n" * 256,
]  # fmt: skip
FLAGS = [os.O_RDONLY, os.O_WRONLY, os.O_RDWR]
MORE_FLAGS = [
    0, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_TRUNC, os.O_CREAT | os.O_TRUNC,
    os.O_APPEND | os.O_CREAT, os.O_NOFOLLOW, os.O_DIRECTORY,
]  # fmt: skip

paths = st.one_of(st.sampled_from(NAMES), st.sampled_from(PATHS))
descriptors = st.integers(0, 5)
counts = st.integers(-1, 12)
data = st.binary(max_size=9)
modes = st.sampled_from([0o666, 0o644, 0o700, 0o755, 0o4755])
flags = st.builds(int.__or__, st.sampled_from(FLAGS), st.sampled_from(MORE_FLAGS))
targets = st.sampled_from(["a", "d", "d/x", "d/", "l", "missing", "x", "./b", "n" * 256, ""])

Call = tuple[Any, ...]

calls: st.SearchStrategy[Call] = st.one_of(
    st.tuples(st.just("open"), paths, flags, modes),
    st.tuples(st.just("open"), st.sampled_from(NAMES), st.just(os.O_RDWR | os.O_CREAT), modes),
    st.tuples(st.just("write"), descriptors, data),
    st.tuples(st.just("read"), descriptors, counts),
    st.tuples(st.just("pread"), descriptors, counts, counts),
    st.tuples(st.just("truncate"), descriptors, counts),
    st.tuples(st.just("map"), descriptors, st.integers(1, 12)),
    st.tuples(st.just("fstat"), descriptors),
    st.tuples(st.just("set_times"), descriptors, st.just(10**18 + 3), st.just(10**18 + 7)),
    st.tuples(st.just("change_mode"), descriptors, modes),
    st.tuples(st.sampled_from(["close", "fsync", "fdatasync", "sync_filesystem"]), descriptors),
    st.tuples(st.just("sync_file_range"), descriptors, counts, counts, st.integers(0, 9)),
    st.tuples(
        st.sampled_from(
            ["stat", "lstat", "list_directory", "unlink", "remove_directory", "read_link"]
        ),
        paths,
    ),
    st.tuples(st.just("make_directory"), paths, modes),
    st.tuples(st.just("make_directory"), st.sampled_from(["d", "d/e"]), modes),
    st.tuples(st.sampled_from(["rename", "link"]), paths, paths),
    st.tuples(st.just("symlink"), targets, paths),
)


POPULATED: list[Call] = [
    ("open", "a", os.O_RDWR | os.O_CREAT, 0o644),
    ("write", 0, b"content"),
    ("make_directory", "d", 0o755),
    ("open", "d/x", os.O_RDWR | os.O_CREAT, 0o600),
    ("symlink", "a", "l"),
]
"""Half of the runs start with these: most calls need something to work on."""


class Runner:
    """Makes calls on one port, under one root, and says what came of them."""

    def __init__(self, port: Port, root: str) -> None:
        self._port, self._root = port, root
        self.descriptors: list[int] = []
        self._inodes: dict[int, int] = {}

    def _argument(self, name: str, position: int, value: Any) -> Any:
        if name in ("open", "stat", "lstat", "list_directory", "unlink", "read_link", "rename",
                    "link", "make_directory", "remove_directory"):  # fmt: skip
            is_path = isinstance(value, str)
        else:
            is_path = name == "symlink" and position == 1
        if is_path:
            return f"{self._root}/{value}"
        if position == 0 and isinstance(value, int):
            return self.descriptors[value] if value < len(self.descriptors) else 1_000_000
        return value

    def run(self, call: Call) -> object:
        name, *arguments = call
        method: Callable[..., Any] = getattr(self._port, name)
        try:
            result = method(*(self._argument(name, i, each) for i, each in enumerate(arguments)))
        except OSError as error:
            return "error", error.errno
        except ValueError:
            return "error", "value"
        if name == "open":
            self.descriptors.append(result)
            return "opened"
        if isinstance(result, os.stat_result):
            return self._status(result, timed=name == "fstat")
        if name == "list_directory":
            return sorted(result)
        return bytes(result) if isinstance(result, memoryview) else result

    def _status(self, status: os.stat_result, *, timed: bool) -> object:
        inode = self._inodes.setdefault(status.st_ino, len(self._inodes))
        if stat.S_ISDIR(status.st_mode):
            return status.st_mode, inode
        was_set = timed and status.st_mtime_ns == 10**18 + 7
        return status.st_mode, inode, status.st_nlink, status.st_size, was_set


@contextmanager
def real_directory() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as directory:
        os.chmod(directory, 0o755)
        yield directory


def umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def real_tree(root: str) -> dict[str, Node]:
    nodes: dict[str, Node] = {}
    for path in Path(root).rglob("*"):
        name = str(path.relative_to(root))
        if path.is_symlink():
            nodes[name] = Symlink(os.readlink(path))
        elif path.is_dir():
            nodes[name] = Directory(stat.S_IMODE(path.stat().st_mode))
        else:
            nodes[name] = File(path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    return nodes


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([[], POPULATED]), st.lists(calls, min_size=1, max_size=40))
def test_the_same_calls_give_the_same_answers(before: list[Call], sequence: list[Call]) -> None:
    with real_directory() as root:
        real = Runner(OsPort(), root)
        machine = Simulated(umask=umask())
        simulated = Runner(machine, "")
        try:
            for number, call in enumerate([*before, *sequence]):
                expected, actual = real.run(call), simulated.run(call)
                assert actual == expected, f"call {number}: {call}"
        finally:
            for descriptor in set(real.descriptors):
                try:
                    os.close(descriptor)
                except OSError:
                    continue
        assert dict(machine.tree()) == real_tree(root)

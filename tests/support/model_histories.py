"""Random runs of a simulated machine, for the tests of the persistence models."""

import os
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from crashsim.model.simulated import WRITE_OUT_AND_WAIT, Simulated
from crashsim.model.tree import Tree

BASE = Tree.of({"a": b"aaaa", "d/b": b"bbbb"})
FILES = ["a", "c", "d/b", "d/c"]
DIRECTORIES = ["/", "d", "e"]

Step = tuple[Any, ...]

files = st.sampled_from(FILES)
steps: st.SearchStrategy[Step] = st.one_of(
    st.tuples(st.just("append"), files, st.binary(min_size=1, max_size=5)),
    st.tuples(st.just("overwrite"), files, st.binary(min_size=1, max_size=5)),
    st.tuples(st.just("rewrite"), files, st.binary(min_size=1, max_size=5)),
    st.tuples(st.just("truncate"), files, st.integers(0, 6)),
    st.tuples(st.sampled_from(["rename", "link"]), files, files),
    st.tuples(st.just("rename"), st.just("d"), st.just("e")),
    st.tuples(st.just("append"), st.just("e/b"), st.binary(min_size=1, max_size=5)),
    st.tuples(st.just("unlink"), files),
    st.tuples(st.sampled_from(["mkdir", "rmdir"]), st.sampled_from(["d", "e"])),
    st.tuples(st.sampled_from(["fsync", "fdatasync", "writeout"]), files),
    st.tuples(st.just("fsync"), st.sampled_from(DIRECTORIES)),
    st.tuples(st.sampled_from(["syncfs", "promise"])),
)


def open_and(machine: Simulated, path: str, flags: int, use: Callable[[int], object]) -> None:
    descriptor = machine.open(path, flags)
    try:
        use(descriptor)
    finally:
        machine.close(descriptor)


def take(machine: Simulated, step: Step) -> bool:
    """Take one step; False where the operating system refused."""
    name, *arguments = step
    try:
        _TAKE[name](machine, *arguments)
    except OSError:
        return False
    return True


def _write(flags: int) -> Callable[[Simulated, str, bytes], None]:
    def write(machine: Simulated, path: str, data: bytes) -> None:
        flags_all = os.O_WRONLY | os.O_CREAT | flags
        open_and(machine, path, flags_all, lambda descriptor: machine.write(descriptor, data))

    return write


_TAKE: dict[str, Callable[..., object]] = {
    "append": _write(os.O_APPEND),
    "overwrite": _write(0),
    "rewrite": _write(os.O_TRUNC),
    "truncate": lambda machine, path, length: open_and(
        machine, path, os.O_WRONLY, lambda descriptor: machine.truncate(descriptor, length)
    ),
    "rename": Simulated.rename,
    "link": Simulated.link,
    "unlink": Simulated.unlink,
    "mkdir": Simulated.make_directory,
    "rmdir": Simulated.remove_directory,
    "fsync": lambda machine, path: open_and(machine, path, os.O_RDONLY, machine.fsync),
    "fdatasync": lambda machine, path: open_and(machine, path, os.O_RDONLY, machine.fdatasync),
    "writeout": lambda machine, path: open_and(
        machine,
        path,
        os.O_RDONLY,
        lambda descriptor: machine.sync_file_range(descriptor, 0, 0, WRITE_OUT_AND_WAIT),
    ),
    "syncfs": lambda machine: open_and(machine, "/", os.O_RDONLY, machine.sync_filesystem),
    "promise": lambda machine: machine.promise(len(machine.operations)),
}


def machine_after(sequence: list[Step]) -> Simulated:
    machine = Simulated(BASE)
    for step in sequence:
        take(machine, step)
    return machine

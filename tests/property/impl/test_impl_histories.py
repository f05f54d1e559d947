"""Random histories, made by this store and by real git side by side: everything must be equal.

Dates and identities are fixed, so that equal histories have equal object names.
"""

import io
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from impl.cli import run
from impl.context import Context
from impl.durability.port import OsPort
from impl.errors import StoreError
from tests.support.impl_command import METHODS, assert_git_accepts, fixed_environment

NAMES = ("a", "b", "d/a", "d/e/f", "a.txt", "a-b", "d.x/y", "ü", "with space")
CONTENTS = ("", "1\n", "2\n", "a longer text\n" * 40, "\0binary\xff")

Operation = tuple[str, ...]

paths = st.sampled_from(NAMES)
operations = st.one_of(
    st.tuples(st.just("file"), paths, st.sampled_from(CONTENTS)),
    st.tuples(st.just("file"), paths, st.sampled_from(CONTENTS)),
    st.tuples(st.just("link"), paths, st.sampled_from(("a", "nowhere/x"))),
    st.tuples(st.just("executable"), paths),
    st.tuples(st.just("delete"), paths),
    st.tuples(st.just("run"), st.just("add"), st.just("--all")),
    st.tuples(st.just("run"), st.just("add"), st.just("-u")),
    st.tuples(
        st.just("run"), st.just("commit"), st.just("-q"), st.just("-m"), st.just("one\n\ntwo")
    ),
    st.tuples(st.just("run"), st.just("commit"), st.just("-q"), st.just("-a"), st.just("-mall")),
    st.tuples(st.just("run"), st.just("stash"), st.just("push"), st.just("-q")),
    st.tuples(st.just("run"), st.just("stash"), st.just("push"), st.just("-q"), st.just("-u")),
    st.tuples(st.just("run"), st.just("stash"), st.just("pop"), st.just("-q")),
    st.tuples(
        st.just("run"), st.just("stash"), st.just("drop"), st.just("-q"), st.just("stash@{1}")
    ),
    st.tuples(st.just("run"), st.just("reset"), st.just("-q"), st.just("--hard")),
    st.tuples(st.just("run"), st.just("reset"), st.just("-q"), st.just("HEAD~1")),
)


class UnsyncedPort(OsPort):
    """The operating system without its syncs, which take time and change nothing that is read."""

    def fsync(self, descriptor: int) -> None:
        """Nothing."""

    def sync_file_range(self, descriptor: int, offset: int, count: int, flags: int) -> None:
        """Nothing."""

    def sync_filesystem(self, descriptor: int) -> None:
        """Nothing."""


class Pair:
    """The same history twice: `ours` by this store, in this process, and `theirs` by git."""

    def __init__(self, root: Path, object_format: str, method: str) -> None:
        self.ours, self.theirs = root / "ours", root / "theirs"
        self.environment = fixed_environment(root)
        self.overrides = ("core.fsync=all", f"core.fsyncMethod={method}")
        for directory in (self.ours, self.theirs):
            directory.mkdir()
            arguments = ("init", "-q", "-b", "main", f"--object-format={object_format}")
            assert self.run(directory, *arguments)

    def run(self, directory: Path, *arguments: str) -> bool:
        """Whether the command succeeded."""
        if directory == self.theirs:
            return self.git(directory, *arguments).returncode == 0
        environment = {k: v for k, v in self.environment.items() if k != "PYTHONPATH"}
        output = io.BytesIO()
        context = Context(
            UnsyncedPort(), str(directory), self.overrides, environment, standard_output=output
        )
        try:
            return run(context, arguments[0], arguments[1:]) == 0
        except StoreError:
            return False

    def git(self, directory: Path, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
        return subprocess.run(
            ["git", "-c", "gc.auto=0", "-c", "core.fsync=none", *arguments],
            cwd=directory,
            env=self.environment,
            capture_output=True,
            check=False,
        )

    def seen_by_git(self, directory: Path) -> dict[str, bytes]:
        """References, index and the files' status as git sees them; reflogs byte by byte."""
        repository = directory / ".git"
        paths = [repository / "HEAD", *(repository / "logs").rglob("*")]
        answers = {
            str(path.relative_to(repository)): path.read_bytes() for path in paths if path.is_file()
        }
        for question in (("for-each-ref",), ("ls-files", "-s"), ("status", "--porcelain")):
            answers[" ".join(question)] = self.git(directory, *question).stdout
        return answers


def apply(directory: Path, operation: Operation) -> None:
    """Change files. A path below a file, or in place of a directory, is left as it is."""
    path = directory / operation[1]
    if operation[0] == "delete":
        if path.is_symlink() or path.is_file():
            path.unlink()
        return
    if any(parent.is_symlink() or parent.is_file() for parent in path.parents) or path.is_dir():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    if operation[0] == "executable":
        if path.is_file() and not path.is_symlink():
            path.chmod(path.stat().st_mode ^ 0o111)
        return
    path.unlink(missing_ok=True)
    if operation[0] == "link":
        path.symlink_to(operation[2])
    else:
        path.write_bytes(operation[2].encode("latin-1"))


def scratch_directory() -> Path:
    """In memory, where there is such a place: a history is thousands of small files."""
    shared_memory = "/dev/shm"
    parent = shared_memory if os.access(shared_memory, os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="impl-history-", dir=parent))


def check(history: list[Operation], object_format: str, method: str) -> None:
    root = scratch_directory()
    try:
        pair = Pair(root, object_format, method)
        for operation in history:
            if operation[0] != "run":
                apply(pair.ours, operation)
                apply(pair.theirs, operation)
                continue
            results = [pair.run(side, *operation[1:]) for side in (pair.ours, pair.theirs)]
            assert results[0] == results[1], operation
        assert pair.seen_by_git(pair.ours) == pair.seen_by_git(pair.theirs)
        assert_git_accepts(pair.ours)
        assert files_below(pair.ours) == files_below(pair.theirs)
    finally:
        shutil.rmtree(root)


def files_below(directory: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for parent, _, names in os.walk(directory):
        if ".git" in Path(parent).relative_to(directory).parts:
            continue
        for name in names:
            path = Path(parent) / name
            content = os.readlink(path) if path.is_symlink() else path.read_bytes()
            found[str(path.relative_to(directory))] = content
    return found


histories = st.lists(operations, min_size=1, max_size=14)


EXAMPLES = 500
"""Of each object format: 1,000 histories together, the same ones in every run."""


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("object_format", ["sha1", "sha256"])
@settings(max_examples=EXAMPLES, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(history=histories, method=st.sampled_from(METHODS))
def test_any_history_is_as_git_makes_it(
    object_format: str, history: list[Operation], method: str
) -> None:
    check(history, object_format, method)

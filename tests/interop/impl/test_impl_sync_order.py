"""Counts and orders of system calls, from strace(1), on every command and method.

git's counts are those that git 2.39 to 2.55 make for the same commands (two new files in the top
directory, `core.fsync=all`).
"""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.impl_command import METHODS, Program, assert_git_accepts, store
from tests.support.impl_order import Appearance, Order, order_of
from tests.support.impl_trace import Step, trace

CARRIED = {"batch", "bulk-rename", "index-flush"}

COUNTS = {
    ("add", "fsync"): {"fsync": 3},
    ("add", "batch"): {"sync_file_range": 2, "fsync": 2},
    ("add", "writeout-only"): {"sync_file_range": 3},
    ("add", "bulk-rename"): {"sync_file_range": 2, "fsync": 2},
    ("add", "index-flush"): {"sync_file_range": 2, "fsync": 1},
    ("add", "index-flush-proposed"): {"sync_file_range": 2, "fsync": 1},
    ("add", "barrier"): {"syncfs": 1},
    ("add", "paired-syncfs"): {"syncfs": 2},
    ("commit", "fsync"): {"fsync": 4},
    ("commit", "batch"): {"sync_file_range": 1, "fsync": 4},
    ("commit", "writeout-only"): {"sync_file_range": 4},
    ("commit", "barrier"): {"syncfs": 1},
    ("commit", "paired-syncfs"): {"syncfs": 2},
}


@pytest.fixture
def repository(tmp_path: Path) -> Program:
    directory = tmp_path / "repo"
    directory.mkdir()
    program = store(directory)
    program("init", "-q")
    return program


def syncs(steps: list[Step]) -> dict[str, int]:
    words = ("fsync", "fdatasync", "sync_file_range", "syncfs")
    return dict(Counter(step.call for step in steps if step.call in words))


@pytest.mark.parametrize("method", sorted({method for _, method in COUNTS}))
def test_two_new_files_cost_what_they_cost_with_git(
    repository: Program, tmp_path: Path, method: str
) -> None:
    for name in ("one", "two"):
        (repository.directory / name).write_text(name)
    program = repository.having("-c", "core.fsync=all", "-c", f"core.fsyncMethod={method}")

    added = trace(program, tmp_path / "add", "add", "one", "two")
    committed = trace(program, tmp_path / "commit", "commit", "-q", "-m", "first")

    assert syncs(added) == COUNTS["add", method]
    if ("commit", method) in COUNTS:
        assert syncs(committed) == COUNTS["commit", method]
    assert_git_accepts(repository.directory)


def test_nothing_is_synced_by_default(repository: Program, tmp_path: Path) -> None:
    (repository.directory / "one").write_text("one")

    added = trace(repository, tmp_path / "add", "add", "one")
    committed = trace(repository, tmp_path / "commit", "commit", "-q", "-m", "first")

    assert syncs(added + committed) == {}


@pytest.mark.parametrize(("method", "files"), [("index-flush", 7), ("index-flush-proposed", 7)])
def test_update_index_under_index_flush_costs_one_flush(
    repository: Program, tmp_path: Path, method: str, files: int
) -> None:
    names = [f"file{number}" for number in range(files)]
    for name in names:
        (repository.directory / name).write_text(name)
    program = repository.having("-c", "core.fsync=loose-object", "-c", f"core.fsyncMethod={method}")

    steps = trace(
        program,
        tmp_path / "trace",
        *("update-index", "--add", "--stdin"),
        stdin="\n".join(names).encode(),
    )

    assert syncs(steps) == {"sync_file_range": files, "fsync": 1}
    assert [step.path for step in steps if step.call == "fsync"] == [".git/index.lock"]


@pytest.mark.parametrize(
    ("method", "flushes"), [("index-flush", 1), ("batch", 2), ("index-flush-proposed", 0)]
)
def test_an_object_stored_while_the_index_stays_as_it_was(
    repository: Program, tmp_path: Path, method: str, flushes: int
) -> None:
    """The hole of the proposal: nobody flushes what an unchanged index does not write."""
    file = repository.directory / "one"
    file.write_text("one")
    repository("add", "one")
    name = repository("ls-files", "-s").split()[1]
    (repository.directory / ".git/objects" / name[:2] / name[2:]).unlink()
    program = repository.having("-c", "core.fsync=loose-object", "-c", f"core.fsyncMethod={method}")

    steps = trace(program, tmp_path / "trace", "add", "one")

    assert [a.kind for a in order_of(steps).appearances] == ["loose-object"]
    assert syncs(steps).get("fsync", 0) == min(flushes, 1)


def run_everything(repository: Program, method: str, tmp_path: Path) -> dict[str, list[Step]]:
    """Every command that writes, once, on its own trace."""
    program = repository.having("-c", "core.fsync=all", "-c", f"core.fsyncMethod={method}")
    directory = repository.directory
    traces: dict[str, list[Step]] = {}

    def run(label: str, *arguments: str, stdin: bytes = b"") -> None:
        traces[label] = trace(program, tmp_path / label, *arguments, stdin=stdin)

    (directory / "one").write_text("1\n")
    (directory / "deep/er").mkdir(parents=True)
    (directory / "deep/er/two").write_text("2\n")
    run("add", "add", "--all")
    run("commit", "commit", "-q", "-m", "first")
    (directory / "three").write_text("3\n")
    run("update-index", "update-index", "--add", "--stdin", stdin=b"three\n")
    run("write-tree", "write-tree")
    run("commit-tree", "commit-tree", "-m", "apart", "HEAD^{tree}")
    run("hash-object", "hash-object", "-w", "--stdin", stdin=b"hashed")
    run("commit-all", "commit", "-q", "-a", "-m", "second")
    (directory / "one").write_text("changed\n")
    (directory / "untracked").write_text("new\n")
    run("stash-push", "stash", "push", "-q", "-u")
    (directory / "three").write_text("changed too\n")
    run("stash-push-again", "stash", "push", "-q")
    run("stash-drop", "stash", "drop", "-q", "stash@{1}")
    run("stash-pop", "stash", "pop", "-q")
    run("reset", "reset", "-q", "--hard", "HEAD~1")
    return traces


def must_hold(method: str, appearance: Appearance) -> bool:
    """Whether a file was as durable as the method wants it when it appeared."""
    kind = appearance.kind
    if kind in ("reflog", "state"):
        return method not in ("strict", "paired-syncfs") or appearance.flushed
    if method == "writeout-only":
        return appearance.written_out
    if kind == "loose-object":
        if method in CARRIED:
            return appearance.flushed or appearance.flush_since
        if method == "index-flush-proposed":
            return appearance.written_out
        return appearance.flushed or method == "barrier"
    return appearance.flushed


@pytest.mark.parametrize("method", METHODS)
def test_every_file_is_synced_before_it_gets_its_name(
    repository: Program, tmp_path: Path, method: str
) -> None:
    for label, steps in run_everything(repository, method, tmp_path).items():
        order = order_of(steps)
        assert order.appearances or order.removals, label
        assert [a for a in order.appearances if not must_hold(method, a)] == [], label
        _check_removals(method, label, order)
        _check_appended(method, label, steps)
        assert not [path for path in _files(repository.directory) if "tmp_" in path], label
        assert not [path for path in _files(repository.directory) if path.endswith(".lock")], label
    assert_git_accepts(repository.directory)


def _check_removals(method: str, label: str, order: Order) -> None:
    """What makes names durable has done so before anything is removed, and by the end."""
    if method in ("strict", "paired-syncfs"):
        assert all(names_durable for _, names_durable in order.removals), label
        assert order.unsynced_names == set(), label


def _check_appended(method: str, label: str, steps: list[Step]) -> None:
    """Reflogs grow before references appear; strict syncs them, ours replaces them."""
    writes = [number for number, s in enumerate(steps) if s.call == "write" and "logs/" in s.path]
    names = [
        number
        for number, step in enumerate(steps)
        if step.call == "rename" and step.path.startswith((".git/refs/", ".git/logs/"))
    ]
    if writes and names:
        assert max(writes) < min(names), label
    if method == "paired-syncfs":
        assert all(steps[number].path.endswith(".lock") for number in writes), label


def _files(directory: Path) -> list[str]:
    return [str(path.relative_to(directory)) for path in (directory / ".git").rglob("*")]


def test_batch_shows_nothing_before_its_flush(repository: Program, tmp_path: Path) -> None:
    for number in range(5):
        (repository.directory / f"file{number}").write_text(str(number))
    program = repository.having("-c", "core.fsync=loose-object", "-c", "core.fsyncMethod=batch")

    steps = trace(program, tmp_path / "trace", "add", "--all")

    flush = next(number for number, step in enumerate(steps) if step.call == "fsync")
    assert "/tmp_objdir-bulk-fsync-" in steps[flush].path
    assert "/bulk_fsync_" in steps[flush].path
    named = [
        number
        for number, step in enumerate(steps)
        if step.call == "link" and not step.failed and step.path.startswith(".git/objects/")
    ]
    in_main = [number for number in named if "tmp_objdir" not in steps[number].path]
    assert len(in_main) == 5
    assert min(in_main) > flush
    assert [step.call for step in steps if "tmp_objdir" in step.path][-1] == "rmdir"
    assert not list((repository.directory / ".git/objects").glob("tmp_*"))

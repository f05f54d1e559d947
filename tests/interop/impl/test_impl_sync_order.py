"""Counts of system calls, from strace(1), and the orders that single methods promise.

git's counts are those that git 2.39 to 2.55 make for the same commands (two new files in the top
directory, `core.fsync=all`).
"""

from collections import Counter
from pathlib import Path

import pytest

from tests.support.impl_command import Program, assert_git_accepts, store
from tests.support.impl_order import order_of
from tests.support.impl_trace import Step, trace

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

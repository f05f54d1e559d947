"""Two processes write at once: the locks hold, whoever is refused is told so, nothing is lost."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.impl_command import Program, assert_git_accepts, git, store

METHODS = ("fsync", "batch", "paired-syncfs")


@pytest.fixture(params=METHODS)
def program(tmp_path: Path, request: pytest.FixtureRequest) -> Program:
    directory = tmp_path / "repo"
    directory.mkdir()
    program = store(directory)
    program("init", "-q", "-b", "main")
    program("commit", "-q", "--allow-empty", "-m", "first")
    return program.having("-c", "core.fsync=all", "-c", f"core.fsyncMethod={request.param}")


def at_once(program: Program, commands: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """Start all of them, then wait: exit codes, and what they said."""
    started = [
        subprocess.Popen(
            [*program.words, *words],
            cwd=program.directory,
            env=dict(program.environment),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for words in commands
    ]
    return [(child.wait(), child.communicate()[1]) for child in started]


def assert_whole(program: Program) -> None:
    names = [path.name for path in (program.directory / ".git").rglob("*")]
    assert not [name for name in names if name.endswith(".lock") or name.startswith("tmp_")]
    assert_git_accepts(program.directory)


def test_adding(program: Program) -> None:
    for number in range(24):
        (program.directory / f"file{number}").write_text(f"{number}\n")

    done: set[int] = set()
    for first in range(0, 24, 4):
        numbers = range(first, first + 4)
        results = at_once(program, [("add", f"file{number}") for number in numbers])
        for number, (code, errors) in zip(numbers, results, strict=True):
            assert code == 0 or "index.lock" in errors
            if code == 0:
                done.add(number)

    listed = program("ls-files").split()
    assert listed == sorted(f"file{number}" for number in done)
    assert done
    assert_whole(program)


def test_committing(program: Program) -> None:
    made = 1
    for attempt in range(5):
        words = ("commit", "-q", "--allow-empty", "-m")
        results = at_once(program, [(*words, f"{attempt}-{writer}") for writer in range(3)])
        assert all(code == 0 or "lock" in errors for code, errors in results)
        made += sum(code == 0 for code, _ in results)

    history = git(program.directory)("log", "--format=%s").splitlines()
    entries = git(program.directory)("log", "-g", "--format=%gs", "HEAD").splitlines()
    assert len(history) == len(set(history)) == len(entries) == made
    assert made > 1
    assert_whole(program)


def test_references(program: Program) -> None:
    """Many branches, by writers who wait for each other's packed-refs: all of them succeed."""
    commands = [("update-ref", f"refs/heads/b{number}", "HEAD") for number in range(8)]
    results = at_once(program, [*commands, ("pack-refs", "--all")])

    assert [code for code, _ in results] == [0] * 9
    names = git(program.directory)("for-each-ref", "--format=%(refname)").split()
    assert names == sorted([*(f"refs/heads/b{number}" for number in range(8)), "refs/heads/main"])
    assert_whole(program)


def test_one_reference_that_all_want_to_make(program: Program) -> None:
    null = "0" * 40
    results = at_once(program, [("update-ref", "refs/heads/b", "HEAD", null)] * 6)

    assert sorted(code for code, _ in results) == [0, *[128] * 5]
    assert all("refs/heads/b" in errors for code, errors in results if code)
    log = (program.directory / ".git/logs/refs/heads/b").read_text()
    assert log.count("\n") == 1
    assert_whole(program)


def test_the_same_object(program: Program) -> None:
    (program.directory / "big").write_bytes(bytes(range(256)) * 4000)

    results = at_once(program, [("hash-object", "-w", "big")] * 6)

    assert [code for code, _ in results] == [0] * 6
    assert_whole(program)

"""`--stats` says what strace(1) sees, call by call and component by component."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from impl.durability.classify import component_of
from impl.durability.components import Component, component_name
from tests.support.impl_command import Program, store
from tests.support.impl_trace import Step, trace

Counts = Counter[tuple[str, str]]


def counted_by_strace(steps: list[Step]) -> Counts:
    """What the store asked for; not what the C library and Python do underneath."""
    counts: Counts = Counter()
    opened: Counter[str] = Counter()
    inside = [step for step in steps if is_in_repository(step.path)]
    for step in without_innards(inside):
        if step.call == "openat" and not step.failed:
            opened[step.path] += 1
        elif step.call == "close":
            if not opened[step.path]:
                continue
            opened[step.path] -= 1
        counts[component_name(component_of(step.path[5:])), step.call] += 1
    return counts


def without_innards(steps: list[Step]) -> Iterator[Step]:
    """Listing a directory is openat, fstat, getdents64 (twice or more) and close: one getdents64.

    Mapping a file has an fstat of Python's own before it, and closes a duplicate of the descriptor
    after it.
    """
    listing: set[str] = set()
    for number, step in enumerate(steps):
        if step.call == "openat" and "O_NONBLOCK" in step.arguments:
            if step.failed:
                yield Step("getdents64", step.paths, "", failed=True)
            else:
                listing.add(step.path)
        elif step.path in listing:
            if step.call == "close":
                listing.remove(step.path)
                yield Step("getdents64", step.paths, "", failed=False)
        elif step.call != "fstat" or next_call(steps, number) != "mmap":
            yield step


def is_in_repository(path: str) -> bool:
    return path == ".git" or path.startswith(".git/")


def next_call(steps: list[Step], number: int) -> str:
    return steps[number + 1].call if number + 1 < len(steps) else ""


def counted_by_store(path: Path) -> Counts:
    report = json.loads(path.read_text())
    assert report["schema"] == "refgit.stats/1"
    return Counter(
        {
            (component, call): number
            for component, calls in report["calls"].items()
            for call, number in calls.items()
            if component != "outside"
        }
    )


@pytest.mark.parametrize("method", ["fsync", "batch", "index-flush", "strict", "paired-syncfs"])
def test_statistics_equal_what_strace_counts(tmp_path: Path, method: str) -> None:
    directory = tmp_path / "repo"
    directory.mkdir()
    program = store(directory)
    program("init", "-q")
    for name in ("one", "deep/er/two"):
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(name)
    options = ("-c", "core.fsync=all", "-c", f"core.fsyncMethod={method}")
    commands = (
        ("add", "--all"),
        ("commit", "-q", "-m", "first"),
        ("hash-object", "-w", "one"),
        ("stash", "push", "-q", "-u"),
        ("ls-files", "-s"),
        ("cat-file", "-p", "HEAD"),
    )
    for number, command in enumerate(commands):
        (directory / "one").write_text(f"{number}")
        (directory / "three").write_text(f"{number}")
        statistics = tmp_path / "stats.json"
        steps = trace(
            program.having(*options, "--stats", str(statistics)), tmp_path / "trace", *command
        )

        assert counted_by_store(statistics) == counted_by_strace(steps), command


@pytest.mark.parametrize(
    ("path", "component"),
    [
        ("objects/ab/cdef", Component.LOOSE_OBJECT),
        ("objects/ab", Component.LOOSE_OBJECT),
        ("objects/tmp_objdir-bulk-fsync-1_1/ab/tmp_obj_1", Component.LOOSE_OBJECT),
        ("objects/pack/pack-12.pack", Component.PACK),
        ("objects/pack/tmp_pack_x", Component.PACK),
        ("objects/pack/pack-12.idx", Component.PACK_METADATA),
        ("objects/pack/tmp_idx_x", Component.PACK_METADATA),
        ("objects/pack/multi-pack-index.lock", Component.PACK_METADATA),
        ("objects/pack/pack-12.keep", Component.OTHER),
        ("objects/info/commit-graph.lock", Component.COMMIT_GRAPH),
        ("objects/info/packs", Component.SERVER_INFO),
        ("index.lock", Component.INDEX),
        ("sharedindex.abc", Component.INDEX),
        ("logs/HEAD", Component.REFLOG),
        ("refs/heads/main.lock", Component.REFERENCE),
        ("packed-refs.new", Component.REFERENCE),
        ("reftable/tables.list", Component.REFERENCE),
        ("HEAD", Component.REFERENCE),
        ("ORIG_HEAD.lock", Component.REFERENCE),
        ("config", Component.OTHER),
        ("", Component.OTHER),
    ],
)
def test_components_of_paths(path: str, component: Component) -> None:
    assert component_of(path) is component


def test_a_failing_command_still_writes_its_statistics(tmp_path: Path) -> None:
    directory = tmp_path / "repo"
    directory.mkdir()
    program: Program = store(directory)
    program("init", "-q")
    statistics = tmp_path / "stats.json"

    done = program.run("--stats", str(statistics), "cat-file", "-p", "nothing")

    assert done.returncode == 128
    assert counted_by_store(statistics)["other", "openat"] >= 1

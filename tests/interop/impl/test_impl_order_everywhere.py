"""Every command that writes, under every method: what is synced before it appears, by strace(1)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.impl_command import METHODS, assert_git_accepts, store
from tests.support.impl_order import Appearance, Order, order_of
from tests.support.impl_trace import Step, trace

CARRIED = {"batch", "bulk-rename", "index-flush"}
"""Here a loose object is durable by another file's flush, after its own writeout."""

NAMES_DURABLE = {"strict", "paired-syncfs"}
"""Here names are synced, too, and everything else that git never syncs."""

MULTI_PACK_INDEX = ".git/objects/pack/multi-pack-index"

Run = Callable[..., None]


def commands_on_files(run: Run, directory: Path) -> None:
    (directory / "one").write_text("1\n")
    (directory / "deep/er").mkdir(parents=True)
    (directory / "deep/er/two").write_text("2\n")
    run("add", "--all")
    run("commit", "-q", "-m", "first")
    (directory / "three").write_text("3\n")
    run("update-index", "--add", "--stdin", stdin=b"three\n")
    run("write-tree")
    run("commit-tree", "-m", "apart", "HEAD^{tree}")
    run("hash-object", "-w", "--stdin", stdin=b"hashed")
    run("commit", "-q", "-a", "-m", "second")
    (directory / "one").write_text("changed\n")
    (directory / "untracked").write_text("new\n")
    run("stash", "push", "-q", "-u")
    (directory / "three").write_text("changed too\n")
    run("stash", "push", "-q")
    run("stash", "drop", "-q", "stash@{1}")
    run("stash", "pop", "-q")
    run("reset", "-q", "--hard", "HEAD~1")
    run("read-tree", "HEAD")
    run("switch", "-q", "-c", "side")
    run("switch", "-q", "main")


def commands_on_packs(run: Run, directory: Path) -> None:
    for number in range(3):
        (directory / f"file{number}").write_text(f"{number}\n" * 50)
        run("add", "--all")
        run("commit", "-q", "-m", f"{number}")
        run("repack", "-q", "-d")
    run("multi-pack-index", "write")
    run("multi-pack-index", "repack")
    run("multi-pack-index", "expire")
    packs = sorted((directory / ".git/objects/pack").glob("*.pack"))
    content = packs[0].read_bytes()
    run("repack", "-q", "-a", "-d", "-b")
    run("index-pack", "--stdin", stdin=content)
    run("commit", "-q", "--allow-empty", "-m", "loose")
    run("prune-packed", is_idle=True)
    run("gc", "-q")


def commands_on_references(run: Run, directory: Path) -> None:
    run("commit", "-q", "--allow-empty", "-m", "first")
    run("update-ref", "-m", "made", "refs/heads/a", "HEAD")
    lines = "".join(f"create refs/heads/many/{number} HEAD\n" for number in range(5))
    run("update-ref", "--stdin", stdin=lines.encode())
    run("tag", "light")
    run("tag", "-a", "-m", "text", "heavy")
    run("branch", "b")
    run("symbolic-ref", "HEAD", "refs/heads/a")
    run("pack-refs", "--all", is_idle=True)  # A reftable stack may be compact already.
    run("update-ref", "-d", "refs/heads/many/3")
    run("tag", "-d", "light")
    run("commit", "-q", "--allow-empty", "-m", "second")
    run("reflog", "expire", "--expire=all", "--all")


SCRIPTS = {
    "files": (commands_on_files, "files"),
    "packs": (commands_on_packs, "files"),
    "references": (commands_on_references, "files"),
    "reftable": (commands_on_references, "reftable"),
}


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("method", METHODS)
def test_every_file_is_synced_before_it_gets_its_name(
    tmp_path: Path, method: str, script: str
) -> None:
    commands, reference_format = SCRIPTS[script]
    directory = tmp_path / "repo"
    directory.mkdir()
    store(directory)("init", "-q", "-b", "main", f"--ref-format={reference_format}")
    program = store(directory).having("-c", "core.fsync=all", "-c", f"core.fsyncMethod={method}")
    appeared: set[str] = set()

    def run(*arguments: str, stdin: bytes = b"", is_idle: bool = False) -> None:
        label = " ".join(arguments)
        steps = trace(program, tmp_path / "trace", *arguments, stdin=stdin)
        order = order_of(steps)
        assert is_idle or order.appearances or order.removals, label
        assert [a for a in order.appearances if not must_hold(method, a)] == [], label
        check_removals(method, label, order)
        check_appended(method, label, steps)
        check_idx_last(label, order)
        names = [str(path.relative_to(directory)) for path in (directory / ".git").rglob("*")]
        assert not [name for name in names if "tmp_" in name or name.endswith(".lock")], label
        appeared.update(appearance.kind for appearance in order.appearances)

    commands(run, directory)
    assert appeared >= EXPECTED[script]
    if reference_format == "files":  # The host's git may be older than reftables.
        assert_git_accepts(directory)


EXPECTED = {
    "files": {"loose-object", "index", "reference", "state"},
    "packs": {"pack", "idx", "pack-metadata", "index", "reference"},
    "references": {"loose-object", "reference", "state"},
    "reftable": {"loose-object", "reference"},
}
"""What each script must have shown: a test of nothing passes, too."""


def must_hold(method: str, appearance: Appearance) -> bool:
    """Whether a file was as durable as the method wants it when it appeared."""
    kind = appearance.kind
    if kind in ("reflog", "state"):
        return method not in NAMES_DURABLE or appearance.flushed
    if method == "writeout-only":
        return appearance.written_out
    if kind == "loose-object":
        if method in CARRIED:
            return appearance.flushed or appearance.flush_since
        if method == "index-flush-proposed":
            return appearance.written_out
        return appearance.flushed or method == "barrier"
    if method == "pack-idx-flush" and kind in ("pack", "pack-metadata"):
        return appearance.flushed or appearance.flush_since
    return appearance.flushed


def check_removals(method: str, label: str, order: Order) -> None:
    """What makes names durable has done so before anything is removed, and by the end.

    But for a multi-pack-index: nobody is promised one; what it makes superfluous is beside it.
    """
    if method not in NAMES_DURABLE:
        return
    if label.startswith("multi-pack-index"):
        assert order.unsynced_names <= {MULTI_PACK_INDEX}, label
        beside = {path.rpartition("/")[0] for path, _ in order.removals}
        assert beside <= {MULTI_PACK_INDEX.rpartition("/")[0]}, label
    else:
        assert all(names_durable for _, names_durable in order.removals), label
        assert order.unsynced_names == set(), label


def check_appended(method: str, label: str, steps: list[Step]) -> None:
    """A reflog grows before its reference appears; two methods write it anew instead."""
    written: dict[str, int] = {}
    named: dict[str, int] = {}
    for number, step in enumerate(steps):
        if step.call == "write" and step.path.startswith(".git/logs/"):
            written[step.path.removeprefix(".git/logs/").removesuffix(".lock")] = number
            assert step.path.endswith(".lock") or method not in NAMES_DURABLE, label
        elif step.call == "rename" and step.path.startswith(".git/refs/"):
            named[step.path.removeprefix(".git/")] = number
    assert all(written[name] < named[name] for name in written.keys() & named.keys()), label
    if label.startswith("commit -q") and named:
        assert written["HEAD"] < max(named.values()), label


def check_idx_last(label: str, order: Order) -> None:
    """Of a pack's files the .idx, which makes it visible, appears last."""
    visible: set[str] = set()
    for appearance in order.appearances:
        stem, _, suffix = appearance.path.rpartition(".")
        assert stem not in visible, (label, appearance.path)
        if suffix == "idx":
            visible.add(stem)

"""What prune, prune-packed and gc remove, and what they leave alone."""

import os
from pathlib import Path

import pytest

from tests.support.impl_command import Program, assert_git_accepts, git, store
from tests.support.pack_history import make_history, names

OLD = 1_000_000_000


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    return make_history(tmp_path / "repository", "sha1")


def loose_path(repository: Path, name: str) -> Path:
    return repository / ".git/objects" / name[:2] / name[2:]


def write_blob(run: Program, repository: Path, content: bytes, *, old: bool) -> str:
    name = run("hash-object", "-w", "--stdin", stdin=content)
    if old:
        os.utime(loose_path(repository, name), (OLD, OLD))
    return name


def test_leftovers_of_crashed_writers(repository: Path) -> None:
    """Old temporary files and quarantines go, with everything in them; young ones stay."""
    objects = repository / ".git/objects"
    quarantine = objects / "tmp_objdir-bulk-fsync-abc"
    (quarantine / "12").mkdir(parents=True)
    (quarantine / "12/tmp_obj_1").write_bytes(b"")
    (objects / "pack").mkdir(exist_ok=True)
    old = [
        objects / "pack/tmp_pack_1",
        objects / "tmp_obj_2",
        next(objects.glob("??")) / "tmp_obj_3",
    ]
    for path in old:
        path.write_bytes(b"half")
    for path in (*old, quarantine):
        os.utime(path, (OLD, OLD))
    young = objects / "pack/tmp_pack_young"
    young.write_bytes(b"")
    ours = store(repository)
    ours("prune", "-n", "--expire=1.day.ago")
    assert all(path.exists() for path in (*old, quarantine))
    ours("prune", "--expire=1.day.ago")
    assert not any(path.exists() for path in (*old, quarantine))
    assert young.exists()
    assert_git_accepts(repository)


def test_what_reflogs_and_the_index_name_stays(repository: Path) -> None:
    ours, theirs = store(repository), git(repository)
    (repository / "staged").write_text("only in the index\n")
    theirs("add", "staged")
    staged = theirs("rev-parse", ":staged")
    (repository / "undone").write_text("only in a reflog\n")
    theirs("add", "undone")
    theirs("commit", "-q", "-m", "undone")
    theirs("reset", "-q", "--soft", "HEAD~1")
    undone = theirs("rev-parse", "HEAD@{1}:undone")
    theirs("rm", "-q", "--cached", "undone")
    for name in (staged, undone):
        os.utime(loose_path(repository, name), (OLD, OLD))
    ours("prune")
    assert theirs("cat-file", "-t", staged) == theirs("cat-file", "-t", undone) == "blob"
    keep_logs = ("-c", "gc.reflogExpire=never", "-c", "gc.reflogExpireUnreachable=never")
    ours.having(*keep_logs)("gc", "-q", "--prune=now")
    assert theirs("cat-file", "-t", staged) == theirs("cat-file", "-t", undone) == "blob"


def test_what_a_young_unreachable_commit_needs_stays(repository: Path) -> None:
    """Its blob is old enough to go, but it may be part of what somebody is just making."""
    ours, theirs = store(repository), git(repository)
    needed = write_blob(theirs, repository, b"needed\n", old=True)
    unneeded = write_blob(theirs, repository, b"not needed\n", old=True)
    tree = theirs("mktree", stdin=f"100644 blob {needed}\tfile\n".encode())
    commit = theirs("commit-tree", "-m", "young", tree)
    ours("prune", "--expire=1.day.ago")
    for name, there in ((needed, True), (tree, True), (commit, True), (unneeded, False)):
        assert loose_path(repository, name).exists() is there


def test_nothing_goes_while_something_reachable_is_missing(repository: Path) -> None:
    ours, theirs = store(repository), git(repository)
    dangling = write_blob(theirs, repository, b"dangling\n", old=True)
    loose_path(repository, theirs("rev-parse", "main^{tree}")).unlink()
    done = ours.run("prune")
    assert done.returncode == 128
    assert done.stderr.startswith(b"fatal: object ")
    assert loose_path(repository, dangling).exists()


def test_a_loose_object_outlives_a_damaged_packed_copy(repository: Path) -> None:
    ours, theirs = store(repository), git(repository)
    listed = theirs("rev-list", "--objects", "--all")
    theirs("pack-objects", "-q", "--window=0", ".git/objects/pack/pack", stdin=listed.encode())
    (pack,) = (repository / ".git/objects/pack").glob("*.pack")
    content = bytearray(pack.read_bytes())
    content[60] ^= 0xFF
    pack.chmod(0o644)
    pack.write_bytes(content)
    before = names(ours)
    ours("prune-packed")
    left = list((repository / ".git/objects").glob("??/*"))
    assert len(left) == 1
    ours("repack", "-a", "-d", "-q")
    assert names(theirs) == before
    assert_git_accepts(repository)


def test_one_gc_at_a_time(repository: Path) -> None:
    ours = store(repository)
    pid = repository / ".git/gc.pid"
    pid.write_text(f"{os.getpid()} {os.uname().nodename}")
    done = ours.run("gc", "-q")
    assert done.returncode == 128
    assert b"gc.pid" in done.stderr
    os.utime(pid, (OLD, OLD))
    ours("gc", "-q")
    assert not pid.exists()
    assert_git_accepts(repository)


@pytest.mark.parametrize("split", [(), ("--split",)], ids=["one file", "a chain"])
def test_gc_leaves_no_commit_graph_of_commits_that_are_gone(
    repository: Path, split: tuple[str, ...]
) -> None:
    ours, theirs = store(repository), git(repository)
    theirs("commit", "-q", "--allow-empty", "-m", "to be forgotten")
    theirs("commit-graph", "write", "--reachable", *split)
    theirs("reset", "-q", "--hard", "HEAD~1")
    theirs("reflog", "expire", "--expire=now", "--expire-unreachable=now", "--all")
    ours("gc", "-q", "--prune=now")

    info = repository / ".git/objects/info"
    assert not (info / "commit-graph").exists()
    assert not (info / "commit-graphs").exists()
    assert_git_accepts(repository)

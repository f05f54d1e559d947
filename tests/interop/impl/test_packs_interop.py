"""Packs and what goes with them, between this store and the host's git, in both directions."""

from pathlib import Path

import pytest

from tests.support.impl_command import assert_git_accepts, git, store
from tests.support.pack_history import (
    bitmap_names,
    make_history,
    names,
    pack_files,
    plain,
    several_packs,
)

FORMATS = ("sha1", "sha256")


@pytest.fixture(params=FORMATS)
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Thirty commits on some files, a side branch with a merge, and an annotated tag; all loose."""
    return make_history(tmp_path / "repository", request.param)


def test_git_accepts_what_repack_writes(repository: Path) -> None:
    ours, theirs = store(repository), git(repository)
    before = names(theirs)
    ours("repack", "-a", "-d", "-b", "-q")
    assert [len(pack_files(repository, at)) for at in (".pack", ".idx", ".rev", ".bitmap")] == [
        1
    ] * 4
    assert not list((repository / ".git/objects").glob("??"))
    assert_git_accepts(repository)
    assert names(theirs) == names(ours) == before
    assert bitmap_names(theirs) == bitmap_names(ours) == plain(before)
    theirs("verify-pack", str(pack_files(repository, ".idx")[0]))
    theirs("rev-list", "--test-bitmap", "main")
    ours("rev-list", "--test-bitmap", "main")


def test_git_goes_on(repository: Path) -> None:
    """git commits, repacks on top of our pack (reusing its deltas and bitmaps), and collects."""
    ours, theirs = store(repository), git(repository)
    ours("repack", "-a", "-d", "-b", "-q")
    (repository / "more").write_text("more\n")
    theirs("add", "more")
    theirs("commit", "-q", "-m", "more")
    theirs("repack", "-d", "-q")
    ours("repack", "-a", "-d", "-b", "-q")
    theirs("repack", "-a", "-d", "-b", "-q")
    assert_git_accepts(repository)
    ours("gc", "-q", "--prune=now")
    assert_git_accepts(repository)
    theirs("gc", "-q", "--prune=now")
    assert_git_accepts(repository)
    assert ours.run("fsck", "--strict", "--full").returncode == 0


def test_we_read_what_git_packs(repository: Path) -> None:
    ours, theirs = store(repository), git(repository)
    before = names(theirs)
    theirs("repack", "-a", "-d", "-b", "-q", "--window=50")
    (index,) = pack_files(repository, ".idx")
    assert names(ours) == before
    assert bitmap_names(ours) == plain(before)
    ours("rev-list", "--test-bitmap", "main")
    listed = ours("verify-pack", "-v", str(index)).splitlines()
    assert listed[:-1] == theirs("verify-pack", "-v", str(index)).splitlines()[:-1]
    done = ours.run("fsck", "--strict", "--full")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_multi_pack_index(repository: Path) -> None:
    ours, theirs = store(repository), git(repository)
    several_packs(repository, ours)
    assert len(pack_files(repository, ".pack")) == 5
    before = names(theirs)
    ours("multi-pack-index", "write", "--bitmap")
    theirs("multi-pack-index", "verify")
    ours("multi-pack-index", "verify")
    theirs("rev-list", "--test-bitmap", "main")
    assert bitmap_names(theirs) == bitmap_names(ours) == plain(before)
    ours("multi-pack-index", "repack")
    assert len(pack_files(repository, ".pack")) == 6
    theirs("multi-pack-index", "verify")
    ours("multi-pack-index", "expire")
    assert len(pack_files(repository, ".pack")) == 1
    theirs("multi-pack-index", "verify")
    assert_git_accepts(repository)
    assert names(ours) == before


def test_multi_pack_index_of_git(repository: Path) -> None:
    ours, theirs = store(repository), git(repository)
    several_packs(repository, theirs)
    before = names(theirs)
    theirs("multi-pack-index", "write", "--bitmap")
    ours("multi-pack-index", "verify")
    ours("rev-list", "--test-bitmap", "main")
    assert bitmap_names(ours) == plain(before)
    theirs("multi-pack-index", "repack")
    ours("multi-pack-index", "expire")
    assert len(pack_files(repository, ".pack")) == 1
    theirs("multi-pack-index", "verify")
    assert_git_accepts(repository)
    assert names(ours) == before


def test_repack_with_a_multi_pack_index_and_bitmap(repository: Path) -> None:
    ours, theirs = store(repository), git(repository)
    several_packs(repository, ours)
    before = names(theirs)
    ours("repack", "-a", "-d", "-b", "--write-midx", "-q")
    assert len(pack_files(repository, "")) == 5
    theirs("multi-pack-index", "verify")
    theirs("rev-list", "--test-bitmap", "main")
    assert_git_accepts(repository)
    ours("repack", "-a", "-d", "-q", "--window=0", "-F")
    assert not pack_files(repository, "multi-pack-index")
    assert_git_accepts(repository)
    assert names(theirs) == before


def test_a_dying_pack_objects_is_heard(repository: Path) -> None:
    """The object that it cannot find: in its words, through the process, with its exit code."""
    ours = store(repository)
    several_packs(repository, ours)
    ours("multi-pack-index", "write")
    for pack in pack_files(repository, ".pack"):
        content = bytearray(pack.read_bytes())
        content[12:40] = bytes(28)
        pack.chmod(0o644)
        pack.write_bytes(content)
    done = ours.run("multi-pack-index", "repack")
    assert done.returncode == 128
    assert b"fatal: pack-objects exited with status 128: fatal: " in done.stderr
    assert b"Traceback" not in done.stderr
    assert not [at.name for at in pack_files(repository, "") if "tmp" in at.name]


def test_unreachable_objects(repository: Path) -> None:
    """Loose and young ones stay; packed ones become loose; old ones go."""
    ours, theirs = store(repository), git(repository)
    dangling = theirs("hash-object", "-w", "--stdin", stdin=b"nobody names this\n")
    ours("prune", "--expire=1.hour.ago")
    assert theirs("cat-file", "-t", dangling) == "blob"
    assert ours("prune", "-n") == f"{dangling} blob"
    done = ours("fsck", "--full")
    assert f"dangling blob {dangling}" in done
    listed = theirs("cat-file", "--batch-check=%(objectname)", "--batch-all-objects")
    pack = str(repository / ".git/objects/pack/pack")
    theirs("pack-objects", "-q", pack, stdin=listed.encode())
    theirs("prune-packed")
    ours("repack", "-A", "-d", "-q", "--unpack-unreachable=1.hour.ago")
    assert theirs("count-objects").startswith("1 objects")
    assert theirs("cat-file", "-t", dangling) == "blob"
    ours("repack", "-a", "-d", "-q")
    ours("prune", "--expire=now")
    assert theirs.run("cat-file", "-t", dangling).returncode != 0
    assert_git_accepts(repository)


def test_fsck_finds_what_git_finds(repository: Path) -> None:
    ours, theirs = store(repository), git(repository)
    blob = theirs("rev-parse", "main:d0/file")
    (repository / ".git/objects" / blob[:2] / blob[2:]).unlink()
    done, reference = ours.run("fsck"), theirs.run("fsck")
    assert f"missing blob {blob}".encode() in done.stdout
    assert f"missing blob {blob}".encode() in reference.stdout
    assert done.returncode & reference.returncode & 2
    tree = theirs("rev-parse", "main^{tree}")
    path = repository / ".git/objects" / tree[:2] / tree[2:]
    path.chmod(0o644)
    path.write_bytes(b"")
    done = ours.run("fsck")
    assert f"{tree}: object corrupt or missing".encode() in done.stderr
    assert done.returncode & 1
    assert b"Traceback" not in done.stderr


def test_count_objects(repository: Path) -> None:
    ours, theirs = store(repository), git(repository)
    assert ours("count-objects") == theirs("count-objects")
    (repository / ".git/objects/pack/tmp_pack_left").write_bytes(b"")
    ours("repack", "-a", "-q")
    assert ours("count-objects", "-v") == theirs("count-objects", "-v")

"""Streams of packs between this store and the host's git; every method writes what git accepts."""

from pathlib import Path

import pytest

from tests.support.impl_command import METHODS, assert_git_accepts, git, store
from tests.support.pack_history import (
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


def test_the_same_index_as_git_makes(repository: Path) -> None:
    ours, theirs = store(repository), git(repository)
    theirs("-c", "pack.writeReverseIndex=true", "repack", "-a", "-d", "-q")
    (pack,) = pack_files(repository, ".pack")
    expected = {at: pack.with_suffix(at).read_bytes() for at in (".idx", ".rev")}
    for suffix in expected:
        pack.with_suffix(suffix).unlink()
    ours("index-pack", str(pack))
    assert {at: pack.with_suffix(at).read_bytes() for at in (".idx", ".rev")} == expected


@pytest.mark.parametrize("style", [[], ["--delta-base-offset"], ["--window=0"]], ids=str)
def test_streams_of_git(repository: Path, tmp_path: Path, style: list[str]) -> None:
    """REF_DELTA, OFS_DELTA and whole objects: unpacked, and indexed."""
    theirs = git(repository)
    everything = "\n".join(plain(names(theirs))).encode()
    done = theirs.run("pack-objects", "-q", "--stdout", *style, stdin=everything)
    object_format = theirs("rev-parse", "--show-object-format")
    for command in (["unpack-objects", "-q"], ["index-pack", "--stdin"]):
        path = tmp_path / command[0]
        path.mkdir()
        git(path)("init", "-q", f"--object-format={object_format}")
        store(path)(*command, stdin=done.stdout)
        git(path)("fetch", "-q", str(repository), "refs/heads/main:refs/heads/main")
        assert_git_accepts(path)
        assert not [at.name for at in (path / ".git/objects/pack").iterdir() if "tmp" in at.name]


def test_thin_packs(repository: Path, tmp_path: Path) -> None:
    theirs = git(repository)
    path = tmp_path / "receiver"
    path.mkdir()
    git(path)("init", "-q", f"--object-format={theirs('rev-parse', '--show-object-format')}")
    older, tip = theirs("rev-parse", "main~5"), theirs("rev-parse", "main")

    def packed(*arguments: str, revisions: str) -> bytes:
        words = ("pack-objects", "-q", "--stdout", "--revs", *arguments)
        return theirs.run(*words, stdin=revisions.encode()).stdout

    store(path)("index-pack", "--stdin", stdin=packed(revisions=f"{older}\n"))
    thin = packed("--thin", revisions=f"{tip}\n^{older}\n")
    refused = store(path).run("index-pack", "--stdin", stdin=thin)
    assert refused.returncode == 128
    assert b"use --fix-thin" in refused.stderr
    store(path)("index-pack", "--stdin", "--fix-thin", "--keep=received", stdin=thin)
    assert [at.read_text() for at in pack_files(path, ".keep")] == ["received\n"]
    git(path)("update-ref", "refs/heads/main", tip)
    for index in pack_files(path, ".idx"):
        git(path)("verify-pack", str(index))
    assert_git_accepts(path)


@pytest.mark.parametrize("cut", [11, 13, 500, -21, -1])
def test_a_cut_off_stream_leaves_nothing(repository: Path, tmp_path: Path, cut: int) -> None:
    theirs = git(repository)
    everything = "\n".join(plain(names(theirs))).encode()
    stream = theirs.run("pack-objects", "-q", "--stdout", stdin=everything).stdout
    object_format = theirs("rev-parse", "--show-object-format")
    path = tmp_path / "receiver"
    path.mkdir()
    git(path)("init", "-q", f"--object-format={object_format}")
    before = sorted(at.relative_to(path) for at in path.rglob("*"))
    for command in (["unpack-objects"], ["index-pack", "--stdin"]):
        done = store(path).run(*command, stdin=stream[:cut])
        assert done.returncode == 128
        assert done.stderr.startswith(b"fatal: the pack on standard input: ")
        assert sorted(at.relative_to(path) for at in path.rglob("*")) == before


@pytest.mark.parametrize("method", METHODS)
def test_every_method(tmp_path: Path, method: str) -> None:
    path = make_history(tmp_path / "repository", "sha1")
    ours = store(path).having("-c", "core.fsync=all", "-c", f"core.fsyncMethod={method}")
    before = names(git(path))
    several_packs(path, ours)
    ours("multi-pack-index", "write")
    ours("multi-pack-index", "repack")
    ours("multi-pack-index", "expire")
    ours("repack", "-a", "-d", "-b", "-q")
    stream = git(path).run("pack-objects", "-q", "--stdout", "--all").stdout
    other = tmp_path / "other"
    other.mkdir()
    git(other)("init", "-q")
    there = store(other).having("-c", "core.fsync=all", "-c", f"core.fsyncMethod={method}")
    there("unpack-objects", "-q", stdin=stream)
    there("index-pack", "--stdin", stdin=stream)
    there("prune-packed")
    for directory in (path, other):
        assert_git_accepts(directory)
        git(directory)("count-objects", "-v")
    assert set(before) <= set(names(git(path)))

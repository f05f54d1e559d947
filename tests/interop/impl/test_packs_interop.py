"""Packs and what goes with them, between this store and the host's git, in both directions."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.impl_command import METHODS, Program, assert_git_accepts, git, store

FORMATS = ("sha1", "sha256")


@pytest.fixture(params=FORMATS)
def repository(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Thirty commits on some files, a side branch with a merge, and an annotated tag; all loose."""
    return make_history(tmp_path / "repository", request.param)


def make_history(path: Path, object_format: str) -> Path:
    path.mkdir()
    run = git(path)
    run("init", "-q", "-b", "main", f"--object-format={object_format}")
    stream = b"".join(_commits())
    run("fast-import", "--quiet", stdin=stream)
    run("reset", "-q", "--hard", "main")
    pack = next((path / ".git/objects/pack").glob("*.pack"))
    content = pack.read_bytes()
    for file in list((path / ".git/objects/pack").iterdir()):
        file.unlink()
    run("unpack-objects", "-q", stdin=content)
    run("tag", "-a", "-m", "a release", "v1", "main~3")
    run("reset", "-q", "--hard", "main")
    return path


def _commits() -> Iterator[bytes]:
    lines = [f"line {number} of the text, of some length" for number in range(150)]
    for number in range(30):
        lines[number * 5] = f"changed in commit {number}"
        text = "\n".join(lines)
        branch = "main" if number % 10 else "side"
        merge = "merge refs/heads/side\n" if number == 21 else ""
        yield (
            f"commit refs/heads/{branch}\ncommitter C <c@example.org> {1700000000 + number} +0000\n"
            f"data 7\ncommit\n{merge}"
            f"M 100644 inline d{number % 3}/file\ndata {len(text)}\n{text}\n"
            f"M 100644 inline d{number % 3}/other{number}\ndata 3\n{number:03d}\n"
        ).encode()


def names(run: Program) -> list[str]:
    return sorted(run("rev-list", "--objects", "--all").splitlines())


def bitmap_names(run: Program) -> list[str]:
    listed = run("rev-list", "--objects", "--all", "--use-bitmap-index").splitlines()
    return sorted(line[: line.find(" ")] if " " in line else line for line in listed)


def plain(listed: list[str]) -> list[str]:
    return sorted(line.partition(" ")[0] for line in listed)


def pack_files(path: Path, suffix: str) -> list[Path]:
    return sorted((path / ".git/objects/pack").glob(f"*{suffix}"))


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


def _several_packs(path: Path, run: Program) -> None:
    run("repack", "-d", "-q")
    for number in range(4):
        (path / "grows").write_text("line\n" * (number + 1))
        git(path)("add", "grows")
        git(path)("commit", "-q", "-m", f"grown {number}")
        run("repack", "-d", "-q")


def test_multi_pack_index(repository: Path) -> None:
    ours, theirs = store(repository), git(repository)
    _several_packs(repository, ours)
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
    _several_packs(repository, theirs)
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
    _several_packs(repository, ours)
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
    _several_packs(repository, ours)
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
    _several_packs(path, ours)
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

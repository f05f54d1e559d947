"""In which order the files of packs appear and go, as the kernel sees it: by strace."""

import json
import shutil
from pathlib import Path

import pytest

from tests.support.impl_command import git, store
from tests.support.impl_trace import Step, trace

PACKS = ".git/objects/pack/"
CHANGING = ("rename", "link", "unlink")
SYNCING = ("fsync", "sync_file_range", "syncfs")


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """Three packs, some loose objects, a multi-pack-index."""
    path = tmp_path / "repository"
    path.mkdir()
    run = git(path)
    run("init", "-q", "-b", "main")
    for number in range(3):
        (path / f"file{number}").write_text(f"{number}\n")
        run("add", ".")
        run("commit", "-q", "-m", f"{number}")
        run("repack", "-d", "-q")
    run("multi-pack-index", "write")
    (path / "loose").write_text("loose\n")
    run("add", ".")
    run("commit", "-q", "-m", "loose")
    return path


def changes(steps: list[Step]) -> list[tuple[str, str]]:
    """What happened to names in the pack directory, temporary ones left out."""
    return [
        (step.call, step.path.removeprefix(PACKS))
        for step in steps
        if step.call in CHANGING and step.path.startswith(PACKS) and "tmp_" not in step.path
    ]


def suffixes(found: list[tuple[str, str]], calls: tuple[str, ...]) -> list[str]:
    return [name.partition(".")[2] for call, name in found if call in calls]


def assert_synced_before_published(steps: list[Step], method: str) -> None:
    """Every file that got its final name among the packs was synced under its earlier one."""
    synced: set[str] = set()
    published = 0
    for step in steps:
        if step.call in SYNCING:
            synced.update(step.paths)
        if step.call in ("rename", "link") and step.path.startswith(PACKS):
            source = step.paths[0]
            assert source in synced, (method, step)
            synced.add(step.path)
            published += 1
    assert published >= 3


@pytest.mark.parametrize("method", ["fsync", "writeout-only", "batch", "strict"])
def test_repack(repository: Path, tmp_path: Path, method: str) -> None:
    ours = store(repository).having("-c", "core.fsync=all", "-c", f"core.fsyncMethod={method}")
    steps = trace(ours, tmp_path / "trace", "repack", "-a", "-d", "-b", "-q")
    found = changes(steps)
    added = suffixes(found, ("rename", "link"))
    assert sorted(added) == ["bitmap", "idx", "pack", "rev"]
    assert (added[0], added[-1]) == ("pack", "idx")
    gone = [at for at, (call, _) in enumerate(found) if call == "unlink"]
    last_added = max(at for at, (call, _) in enumerate(found) if call != "unlink")
    assert min(gone) > last_added
    removed = [name for call, name in found if call == "unlink"]
    assert removed[0] == "multi-pack-index"
    assert [name[-4:] for name in removed[1:]] == [".idx", "pack"] * 3
    loose = [
        at
        for at, step in enumerate(steps)
        if step.call == "unlink"
        and len(step.path.split("/")) == 4
        and "tmp" not in step.path
        and "pack" not in step.path
    ]
    old_pack = max(
        at for at, step in enumerate(steps) if step.call == "unlink" and step.path.startswith(PACKS)
    )
    assert len(loose) == 3
    assert min(loose) > old_pack
    assert_synced_before_published(steps, method)


def test_repack_with_a_new_multi_pack_index(repository: Path, tmp_path: Path) -> None:
    ours = store(repository).having("-c", "core.fsync=all")
    steps = trace(ours, tmp_path / "trace", "repack", "-a", "-d", "-q", "--write-midx")
    found = changes(steps)
    assert suffixes(found, ("rename", "link")) == ["pack", "rev", "idx", ""]
    midx = found.index(("rename", "multi-pack-index"))
    assert min(at for at, (call, _) in enumerate(found) if call == "unlink") > midx
    assert ("unlink", "multi-pack-index") not in found
    assert_synced_before_published(steps, "fsync")


def test_expire_writes_the_index_before_it_removes_packs(repository: Path, tmp_path: Path) -> None:
    ours = store(repository).having("-c", "core.fsync=all")
    ours("multi-pack-index", "repack")
    steps = trace(ours, tmp_path / "trace", "multi-pack-index", "expire")
    found = changes(steps)
    assert found[0] == ("rename", "multi-pack-index")
    assert [call for call, _ in found[1:]] == ["unlink"] * 6
    published = next(at for at, step in enumerate(steps) if step.call == "rename")
    assert any(step.call == "fsync" for step in steps[:published])


def test_index_pack(repository: Path, tmp_path: Path) -> None:
    stream = git(repository).run("pack-objects", "-q", "--stdout", "--all").stdout
    path = tmp_path / "receiver"
    path.mkdir()
    git(path)("init", "-q")
    ours = store(path).having("-c", "core.fsync=all")
    words = ("index-pack", "--stdin", "--keep")
    steps = trace(ours, tmp_path / "trace", *words, stdin=stream)
    assert suffixes(changes(steps), ("rename", "link")) == ["keep", "pack", "rev", "idx"]
    assert_synced_before_published(steps, "fsync")


def test_write_calls_of_a_midx_repack(tmp_path: Path) -> None:
    """Two calls an object without a buffer; a factor of 190 less with stdio's 4 KiB."""
    path = tmp_path / "repository"
    path.mkdir()
    git(path)("init", "-q", "-b", "main")
    for half in range(2):
        parent = b"from refs/heads/main^0\n" if half else b""
        stream = [b"commit refs/heads/main\ncommitter C <c@e> %d +0000\ndata 1\nc\n" % half, parent]
        for number in range(1000):
            text = b"%d-%d" % (half, number)
            stream.append(b"M 100644 inline %d-%d\ndata %d\n%s\n" % (half, number, len(text), text))
        git(path)(
            "-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", stdin=b"".join(stream)
        )
    store(path)("multi-pack-index", "write")
    counts = {}
    for size in (0, 4096, 65536):
        copy = tmp_path / f"{size}"
        shutil.copytree(path, copy)
        statistics = tmp_path / f"{size}.json"
        words = ("-c", f"refgit.midxRepackBuffer={size}", "--stats", str(statistics))
        store(copy)(*words, "multi-pack-index", "repack")
        assert len(list((copy / ".git/objects/pack").glob("*.pack"))) == 3
        counts[size] = json.loads(statistics.read_text())["calls"]["outside"]["write"]
    objects = 2 * (1000 + 1 + 1)
    assert counts[0] == 2 * objects
    assert counts[0] / counts[4096] >= 190
    assert counts[65536] == 2

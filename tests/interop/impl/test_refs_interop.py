"""References in files: the host's git and this store in one repository, and many at once."""

import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from impl.refs.files.packed import PackedFile
from tests.support.impl_command import Program, git, store

FILES = ("HEAD", "packed-refs", "refs", "logs")
TEMPORARY = (".lock", ".new", "tmp_")


@pytest.fixture
def twins(tmp_path: Path) -> tuple[Program, Program, list[str]]:
    """git in one repository, this store in its copy, and the names of three commits."""
    first, second = tmp_path / "git", tmp_path / "impl"
    first.mkdir()
    program = git(first)
    program("init", "-q", "-b", "main", ".")
    for number in range(3):
        (first / "file").write_text(str(number))
        program("add", "file")
        program("commit", "-q", "-m", f"commit {number}")
    program("tag", "-a", "-m", "tag", "v1", "HEAD~1")
    program("branch", "side", "HEAD~1")
    subprocess.run(["cp", "-a", str(first), str(second)], check=True)
    commits = [program("rev-parse", f"HEAD~{number}") for number in (2, 1, 0)]
    return program, store(second), commits


def files_of(directory: Path) -> dict[str, bytes]:
    """The references and reflogs, byte for byte."""
    root = directory / ".git"
    paths = [path for name in FILES for path in (root / name, *(root / name).rglob("*"))]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths if path.is_file()}


STEPS = (
    "update-ref refs/heads/n 0",
    "update-ref -m hello refs/heads/n 1 0",
    "update-ref refs/heads/n 2 0",
    "update-ref HEAD 1",
    "update-ref -m same HEAD 1",
    "update-ref -m same refs/heads/main 1",
    "update-ref -d refs/heads/nope",
    "update-ref -d refs/heads/n 0",
    "update-ref -d refs/heads/n 1",
    "update-ref refs/heads/side/x 0",
    "update-ref --no-deref HEAD 0",
    "update-ref -m detached HEAD 1",
    "symbolic-ref -m back HEAD refs/heads/main",
    "symbolic-ref HEAD",
    "symbolic-ref --short HEAD",
    "symbolic-ref refs/heads/sym refs/heads/side",
    "update-ref -m through refs/heads/sym 2",
    "symbolic-ref -q refs/heads/side",
    "symbolic-ref --delete refs/heads/sym",
    "update-ref --create-reflog -m logged refs/custom/a 0",
    "update-ref -m silent refs/custom/b 0",
    "update-ref refs/tags/q 0",
    "pack-refs",
    "pack-refs --all",
    "for-each-ref",
    "for-each-ref --sort=-refname --format=%(refname:short)|%(objectname:short)|%(HEAD)|%%%41",
    "for-each-ref --format=%(*objectname)|%(*objecttype)|%(symref) --sort=objectname",
    "for-each-ref --count=2 refs/heads refs/t*/v*",
    "show-ref",
    "show-ref -d",
    "show-ref --head -s",
    "show-ref v1 main",
    "show-ref nope",
    "show-ref --tags",
    "show-ref --verify refs/heads/main",
    "show-ref --verify -q refs/heads/nope",
    "update-ref -m moved refs/tags/q 1",
    "update-ref -d refs/tags/q",
    "update-ref -d refs/heads/side",
    "update-ref refs/heads/side/x 0",
    "update-ref -d refs/heads/side/x",
    "update-ref refs/heads/side 0",
    "branch x",
    "branch y side",
    "branch x",
    "branch",
    "branch -d x",
    "branch -d y",
    "branch -D main",
    "branch --show-current",
    "branch x 2",
    "branch -f x side",
    "reflog",
    "reflog show x",
    "reflog exists refs/heads/x",
    "reflog exists refs/heads/zz",
    "reflog delete --rewrite --updateref x@{0}",
    "reflog expire --expire=all x",
    "reflog expire --expire=all --all",
    "for-each-ref",
)


def test_every_step_leaves_the_same_bytes(twins: tuple[Program, Program, list[str]]) -> None:
    theirs, ours, commits = twins
    for step in STEPS:
        arguments = [
            commits[int(word)] if word in ("0", "1", "2") else word for word in step.split()
        ]
        expected, done = theirs.run(*arguments), ours.run(*arguments)
        assert (step, done.returncode, done.stdout) == (step, expected.returncode, expected.stdout)
        assert files_of(ours.directory) == files_of(theirs.directory), step
    git(ours.directory)("fsck", "--strict")


INPUTS = (
    "create refs/heads/s1 {0}\nupdate refs/heads/main {1} {2}\nverify refs/heads/x\n",
    "create refs/heads/s1 {0}\ndelete refs/heads/side\n",
    "start\ncreate refs/heads/s2 {0}\nprepare\ncommit\nstart\ncreate refs/heads/s3 {0}\nabort\n",
    "start\ncreate refs/heads/s4 {0}\n",
    "start\ncreate refs/heads/s4 {0}\nprepare\n",
    "create refs/heads/s5 {0}\ncreate refs/heads/s5 {0}\n",
    "create refs/heads/s6 {0}\ncreate refs/heads/s6/x {0}\n",
    "option no-deref\nupdate HEAD {0}\n",
    "bogus x\n",
    "create refs/heads/s7\n",
    "create refs/heads/s7 {0} {0}\n",
    'create "refs/heads/q\\303\\251" {0}\n',
    "delete refs/heads/s1 {2}\n",
    "update refs/heads/z9 {0} " + "0" * 40 + "\nupdate refs/heads/s1 " + "0" * 40 + "\n",
    "update refs/heads/side {2} {0}\n",
    "create refs/heads/.bad {0}\n",
    "create refs/heads/no " + "e" * 40 + "\n",
)


def test_transactions_from_input(twins: tuple[Program, Program, list[str]]) -> None:
    theirs, ours, commits = twins
    for text in INPUTS:
        stdin = text.format(*commits).encode()
        expected = theirs.run("update-ref", "--stdin", stdin=stdin)
        done = ours.run("update-ref", "--stdin", stdin=stdin)
        assert (text, done.returncode, done.stdout) == (text, expected.returncode, expected.stdout)
        assert files_of(ours.directory) == files_of(theirs.directory), text
        if done.returncode:
            assert done.stderr.startswith(b"fatal: ")
            assert done.stderr.count(b"\n") <= 2


@pytest.mark.parametrize(
    "text",
    [
        "create refs/heads/z1\0{0}\0update refs/heads/side\0{2}\0\0verify refs/heads/zz\0\0",
        "delete refs/heads/side\0{1}\0",
        "update refs/heads/side\0{2}\0{2}\0",
        "create refs/heads/z1\0",
    ],
)
def test_input_with_nuls(twins: tuple[Program, Program, list[str]], text: str) -> None:
    theirs, ours, commits = twins
    stdin = text.format(*commits).encode()
    expected = theirs.run("update-ref", "--stdin", "-z", stdin=stdin)
    done = ours.run("update-ref", "--stdin", "-z", stdin=stdin)
    assert done.returncode == expected.returncode, done.stderr
    assert files_of(ours.directory) == files_of(theirs.directory)


def test_symbolic_references_from_input(twins: tuple[Program, Program, list[str]]) -> None:
    _, ours, _ = twins
    text = (
        "symref-create refs/x/s refs/heads/side\noption no-deref\n"
        "symref-update refs/x/s refs/heads/main ref refs/heads/side\n"
    )
    assert ours.run("update-ref", "--stdin", stdin=text.encode()).returncode == 128
    text = text.replace("option no-deref\nsymref-update", "symref-update HEAD refs/heads/side\n#")
    for line in (
        "symref-create refs/x/s refs/heads/side",
        "option no-deref\nsymref-verify refs/x/s refs/heads/side",
    ):
        ours("update-ref", "--stdin", stdin=f"{line}\n".encode())
    assert git(ours.directory)("symbolic-ref", "refs/x/s") == "refs/heads/side"
    wrong = b"option no-deref\nsymref-delete refs/x/s refs/heads/main\n"
    assert ours.run("update-ref", "--stdin", stdin=wrong).returncode == 128
    ours("update-ref", "--stdin", stdin=wrong.replace(b"main", b"side"))
    assert git(ours.directory).run("symbolic-ref", "-q", "refs/x/s").returncode != 0


def test_a_crashed_pack_refs_of_git_blocks_nobody_for_ever(
    twins: tuple[Program, Program, list[str]],
) -> None:
    _, ours, _ = twins
    stale = ours.directory / ".git" / "packed-refs.new"
    stale.write_bytes(b"half of it")
    theirs = git(ours.directory)
    assert theirs.run("pack-refs", "--all").returncode != 0
    ours("pack-refs", "--all")
    theirs("pack-refs", "--all")
    assert not stale.exists()


def test_a_stale_lock_is_named_and_kept(twins: tuple[Program, Program, list[str]]) -> None:
    _, ours, commits = twins
    lock = ours.directory / ".git" / "refs/heads/side.lock"
    lock.touch()
    done = ours.run("update-ref", "refs/heads/side", commits[2])
    assert done.returncode == 128
    assert b"refs/heads/side.lock" in done.stderr
    assert b"remove the file" in done.stderr
    assert lock.exists()
    lock.unlink()
    ours("update-ref", "refs/heads/side", commits[2])


def start(program: Program, *arguments: str, stdin: bytes = b"") -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        [*program.words, *arguments],
        cwd=program.directory,
        env=dict(program.environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    process.stdin.write(stdin)
    process.stdin.close()
    return process


def all_of(processes: Sequence["subprocess.Popen[bytes]"]) -> list[tuple[int, bytes]]:
    found = []
    for process in processes:
        assert process.stderr is not None
        message = process.stderr.read()
        found.append((process.wait(120), message))
    return found


def test_of_many_who_expect_the_same_value_one_wins(
    twins: tuple[Program, Program, list[str]],
) -> None:
    _, ours, commits = twins
    theirs = git(ours.directory)
    for turn in range(3):
        old, new = commits[1 + turn % 2], commits[2 - turn % 2]
        racers = [ours, theirs, ours, theirs, ours]
        done = all_of([start(one, "update-ref", "refs/heads/side", new, old) for one in racers])
        assert [code for code, _ in done].count(0) == 1, done
        assert theirs("rev-parse", "side") == new
    assert len(theirs("reflog", "show", "side").splitlines()) == 4


@pytest.mark.parametrize("reference_format", ["files", "reftable"])
def test_no_update_is_lost(tmp_path: Path, reference_format: str) -> None:
    directory = tmp_path / "repo"
    directory.mkdir()
    ours = store(directory)
    ours("init", "-q", f"--ref-format={reference_format}")
    tree = ours("hash-object", "-t", "tree", "-w", "--stdin")
    commit = ours("commit-tree", tree, "-m", "m")
    pending = {f"refs/heads/w{writer}/{number}" for writer in range(4) for number in range(5)}
    every = set(pending)
    deadline = time.monotonic() + 100
    while pending and time.monotonic() < deadline:
        batch = sorted(pending)[:4]
        processes = [start(ours, "update-ref", name, commit) for name in batch]
        packer = start(ours, "pack-refs", "--all")
        for name, (code, message) in zip(batch, all_of(processes), strict=True):
            assert code == 0 or b".lock" in message, message
            if code == 0:
                pending.remove(name)
        code, message = all_of([packer])[0]
        assert code == 0 or b".lock" in message or b"try again" in message, message
    assert not pending
    assert set(ours("for-each-ref", "--format=%(refname)").splitlines()) == every
    left = [path.name for path in (directory / ".git").rglob("*") if path.is_file()]
    assert not [name for name in left if any(part in name for part in TEMPORARY)]


def damaged_repositories() -> list[tuple[str, bytes]]:
    good = b"# pack-refs with: peeled fully-peeled sorted \n" + b"a" * 40 + b" refs/heads/x\n"
    return [
        ("packed-refs", b""),
        ("packed-refs", bytes(len(good))),
        ("packed-refs", good[:-5]),
        ("packed-refs", good.replace(b"a", b"g", 1)),
        ("refs/heads/side", b""),
        ("refs/heads/side", bytes(41)),
        ("refs/heads/main", b"\xff" * 41),
        ("HEAD", bytes(23)),
        ("logs/refs/heads/side", bytes(50)),
    ]


@pytest.mark.parametrize(("name", "content"), damaged_repositories())
def test_damage_is_reported_in_a_line(
    twins: tuple[Program, Program, list[str]], name: str, content: bytes
) -> None:
    _, ours, _ = twins
    (ours.directory / ".git" / name).write_bytes(content)
    done = ours.run("refs", "verify")
    assert done.returncode in (1, 128)
    assert name.encode() in done.stderr
    for command in (["for-each-ref"], ["reflog", "show", "side"], ["show-ref"], ["pack-refs"]):
        done = ours.run(*command)
        assert b"Traceback" not in done.stderr
        assert done.returncode in (0, 1, 128)


def test_packed_refs_is_read_again_only_when_it_changed(
    twins: tuple[Program, Program, list[str]],
) -> None:
    from impl.durability.port import OsPort
    from impl.objects.hashes import SHA1

    theirs, _, commits = twins
    theirs("pack-refs", "--all")
    packed = PackedFile(OsPort(), os.fspath(theirs.directory / ".git"), SHA1)
    for commit in commits:
        theirs("update-ref", "refs/heads/new", commit)
        theirs("pack-refs", "--all")
        assert [packed.current().refs["refs/heads/new"].value for _ in range(5)] == [commit] * 5
    assert packed._watched.reads == len(commits)
    packed.close()

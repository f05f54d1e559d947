"""What a crash leaves behind, and hostile or damaged input: never trusted, never silent."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.impl_command import METHODS, Program, assert_git_accepts, git, store


@pytest.fixture
def repository(tmp_path: Path) -> Program:
    directory = tmp_path / "repo"
    directory.mkdir()
    program = store(directory)
    program("init", "-q")
    (directory / "file").write_text("content\n")
    (directory / "dir").mkdir()
    (directory / "dir/other").write_text("other\n")
    program("add", "--all")
    program("commit", "-q", "-m", "first")
    return program


def object_files(program: Program) -> list[Path]:
    return sorted((program.directory / ".git/objects").glob("??/*"))


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "zeros": lambda data: bytes(len(data)),
    "cut off": lambda data: data[: len(data) // 2],
    "garbage behind": lambda data: data + b"x",
}


@pytest.mark.parametrize("damage", sorted(DAMAGE))
def test_adding_the_same_content_repairs_its_object(repository: Program, damage: str) -> None:
    """git takes the file's existence for the object (its F9); here it is read, and replaced."""
    name = repository("hash-object", "file")
    path = repository.directory / ".git/objects" / name[:2] / name[2:]
    whole = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(DAMAGE[damage](whole))

    repository("add", "file")

    assert path.read_bytes() == whole
    assert_git_accepts(repository.directory)


@pytest.mark.parametrize("method", METHODS)
def test_every_object_of_a_commit_is_repaired_by_making_it_again(
    repository: Program, method: str
) -> None:
    program = repository.having("-c", "core.fsync=all", "-c", f"core.fsyncMethod={method}")
    before = [(path.name, path.stat().st_size) for path in object_files(repository)]
    for path in object_files(repository):
        path.chmod(0o644)
        path.write_bytes(b"")

    program("add", "--all")
    tree = program("write-tree")
    program("commit-tree", "-m", "first", tree)

    assert [(path.name, path.stat().st_size) for path in object_files(repository)] == before
    assert_git_accepts(repository.directory)


@pytest.mark.parametrize("damage", sorted(DAMAGE))
@pytest.mark.parametrize(
    ("file", "command"),
    [
        (".git/index", ("ls-files",)),
        (".git/index", ("commit", "-q", "-m", "x", "--allow-empty")),
        (".git/index", ("stash",)),
        (".git/index", ("update-index", "--add", "file")),
    ],
)
def test_a_damaged_index_is_an_error_and_stays(
    repository: Program, damage: str, file: str, command: tuple[str, ...]
) -> None:
    path = repository.directory / file
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    damaged = path.read_bytes()

    done = repository.run(*command)

    assert done.returncode == 128
    assert done.stderr.startswith(b"fatal: ")
    assert b"reset" in done.stderr
    assert path.read_bytes() == damaged
    assert not path.with_suffix(".lock").exists()


def test_reset_makes_a_lost_index_anew(repository: Program) -> None:
    (repository.directory / ".git/index").unlink()

    repository("reset", "-q")

    assert git(repository.directory)("status", "--porcelain") == ""


def test_a_damaged_object_is_an_error_and_never_content(repository: Program) -> None:
    name = repository("hash-object", "file")
    path = repository.directory / ".git/objects" / name[:2] / name[2:]
    path.chmod(0o644)
    whole = path.read_bytes()
    for damaged in {damage(whole) for damage in DAMAGE.values()}:
        path.write_bytes(damaged)
        for command in (("cat-file", "-p", name), ("cat-file", "-t", name)):
            done = repository.run(*command)
            assert done.returncode == 128
            assert done.stdout == b""
            assert b"corrupt" in done.stderr or b"garbage" in done.stderr
        assert repository.run("cat-file", "-e", name).returncode == 1


HOSTILE = (
    b"../outside",
    b"/outside",
    b"a/../../outside",
    b".git/config",
    b".GIT/hooks/x",
    b"git~1/x",
)


@pytest.mark.parametrize("path", HOSTILE)
def test_hostile_trees_are_not_checked_out(repository: Program, path: bytes) -> None:
    """A tree that git itself refuses to make is made by hand, and reset to."""
    blob = repository("hash-object", "file")
    tree = nested_tree(repository, path.split(b"/"), blob)
    commit = repository("commit-tree", "-m", "evil", tree)
    outside = set(repository.directory.parent.iterdir())
    config = (repository.directory / ".git/config").read_bytes()

    done = repository.run("reset", "-q", "--hard", commit)

    assert done.returncode == 128
    assert b"invalid path" in done.stderr or b"malformed entry" in done.stderr
    assert set(repository.directory.parent.iterdir()) == outside
    assert (repository.directory / ".git/config").read_bytes() == config
    assert not (repository.directory / ".git/index.lock").exists()


def nested_tree(program: Program, parts: list[bytes], blob: str) -> str:
    mode, name = b"100644", blob
    for part in reversed(parts):
        content = mode + b" " + part + b"\0" + bytes.fromhex(name)
        name = program("hash-object", "-w", "-t", "tree", "--literally", "--stdin", stdin=content)
        mode = b"40000"
    return name


@pytest.mark.parametrize("path", HOSTILE)
def test_hostile_paths_do_not_enter_the_index(repository: Program, path: bytes) -> None:
    name = repository("hash-object", "file")
    line = b"100644 %s 0\t%s\n" % (name.encode(), path)

    done = repository.run("update-index", "--index-info", stdin=line)

    assert done.returncode == 128
    assert b"invalid path" in done.stderr


def test_files_are_not_written_through_a_link(repository: Program, tmp_path: Path) -> None:
    """A commit has dir/other; a link to elsewhere has taken the directory's place."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    directory = repository.directory
    (directory / "dir/other").unlink()
    (directory / "dir").rmdir()
    (directory / "dir").symlink_to(elsewhere)

    done = repository.run("reset", "-q", "--hard")

    assert list(elsewhere.iterdir()) == []
    assert done.returncode == 128
    assert b"link" in done.stderr


def test_files_behind_a_link_are_not_added(repository: Program, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("secret")
    (repository.directory / "link").symlink_to(elsewhere)

    done = repository.run("update-index", "--add", "link/secret")

    assert done.returncode == 128
    assert "link/secret" not in repository("ls-files")


def test_two_writers_one_waits_its_turn(repository: Program) -> None:
    """A held lock stops every writer, which then leaves everything as it was."""
    directory = repository.directory
    (directory / ".git/index.lock").touch()
    (directory / "new").write_text("new")
    before = sorted(os.listdir(directory / ".git"))

    for command in (("add", "new"), ("commit", "-qm", "x"), ("stash", "-u"), ("reset", "--hard")):
        done = repository.run(*command)
        assert done.returncode == 128
        assert b"index.lock" in done.stderr

    assert sorted(os.listdir(directory / ".git")) == before
    assert (directory / "new").read_text() == "new"


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("frobnicate",),
        ("--frob", "add"),
        ("-c",),
        ("-c", "nodot", "ls-files"),
        ("add", "--frob"),
        ("commit", "-m"),
        ("cat-file",),
        ("cat-file", "-p", "no-such"),
        ("cat-file", "-p", "HEAD^9"),
        ("cat-file", "-p", "HEAD:nothing"),
        ("add", "no-such-file"),
        ("update-index", "--index-info-x"),
        ("update-index", "--cacheinfo", "100644,zz,x"),
        ("init", "--object-format=md5"),
        ("hash-object", "-t", "frob", "file"),
        ("hash-object", "no-such-file"),
        ("reset", "--hard", "no-such"),
        ("stash", "pop"),
        ("stash", "drop", "stash@{7}"),
        ("stash", "frob"),
        ("write-tree", "x"),
        ("commit-tree", "HEAD"),
        ("ls-files", "../.."),
    ],
)
def test_wrong_use_is_told_in_one_line_or_by_the_usage(
    repository: Program, arguments: tuple[str, ...]
) -> None:
    done = repository.run(*arguments)

    assert b"Traceback" not in done.stderr
    if arguments != ("commit-tree", "HEAD"):
        assert done.returncode in (1, 128, 129)
        assert done.stderr

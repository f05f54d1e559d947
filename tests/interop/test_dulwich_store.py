"""The benchmark's dulwich does the store's work: a pack from a pipe, checked, deltas resolved."""

import sys
from pathlib import Path

import pytest

from crashsim.workloads import dulwich_store
from tests.support.impl_command import Program, assert_git_accepts, fixed_environment, git
from tests.support.pack_history import make_history, names, plain


@pytest.fixture
def pack(tmp_path: Path) -> bytes:
    """A history, most of it deltas."""
    theirs = git(make_history(tmp_path / "sender", "sha1"))
    everything = "\n".join(plain(names(theirs))).encode()
    return theirs.run("pack-objects", "-q", "--stdout", stdin=everything).stdout


@pytest.fixture
def receiver(tmp_path: Path) -> Program:
    """dulwich, in an empty repository."""
    pytest.importorskip("dulwich")
    directory = tmp_path / "receiver"
    directory.mkdir()
    git(directory)("init", "-q")
    words = (sys.executable, dulwich_store.__file__)
    return Program(words, directory, fixed_environment(tmp_path))


def all_objects(program: Program) -> list[str]:
    """The names of all objects in a program's repository."""
    listing = ("--batch-all-objects", "--batch-check=%(objectname)")
    return git(program.directory)("cat-file", *listing).splitlines()


def test_it_unpacks_what_comes_from_a_pipe(tmp_path: Path, pack: bytes, receiver: Program) -> None:
    receiver("unpack-objects", "-q", stdin=pack)
    assert all_objects(receiver) == plain(names(git(tmp_path / "sender")))
    assert_git_accepts(receiver.directory)
    assert not [*(receiver.directory / ".git/objects/pack").iterdir()]


def test_it_stores_nothing_of_a_damaged_pack(pack: bytes, receiver: Program) -> None:
    damaged = bytes([*pack[:-1], pack[-1] ^ 1])
    assert receiver.run("unpack-objects", "-q", stdin=damaged).returncode != 0
    assert all_objects(receiver) == []

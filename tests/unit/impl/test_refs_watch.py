"""Seeing that a file was replaced, without reading it; in spite of reused inode numbers."""

import os
from pathlib import Path

import pytest

from impl.durability.port import OsPort
from impl.refs.watch import WatchedFile


def replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.utime(new, ns=(0, 0))
    new.rename(path)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "list"
    replace(found, b"one")
    return found


def test_reads_once(path: Path) -> None:
    watched = WatchedFile(OsPort(), str(path))
    assert [watched.refresh() for _ in range(5)] == [True, False, False, False, False]
    assert (watched.content, watched.reads, watched.stats) == (b"one", 1, 4)


def test_reads_every_time_without_the_cache(path: Path) -> None:
    watched = WatchedFile(OsPort(), str(path), use_cache=False)
    assert [watched.refresh() for _ in range(3)] == [True] * 3
    assert (watched.reads, watched.stats) == (3, 0)


def test_sees_a_replacement_of_equal_size_and_time(path: Path) -> None:
    watched = WatchedFile(OsPort(), str(path))
    watched.refresh()
    for number in range(50):
        replace(path, b"%03d" % number)
        assert watched.refresh()
        assert watched.content == b"%03d" % number


class ForgetfulPort(OsPort):
    """A filesystem that gives the number of a closed file's inode to the next file at once."""

    def __init__(self) -> None:
        self._open: set[int] = set()

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        descriptor = super().open(path, flags, mode)
        self._open.add(descriptor)
        return descriptor

    def close(self, descriptor: int) -> None:
        self._open.discard(descriptor)
        super().close(descriptor)

    def stat(self, path: str) -> os.stat_result:
        return self._numbered(super().stat(path))

    def fstat(self, descriptor: int) -> os.stat_result:
        return self._numbered(super().fstat(descriptor))

    def _numbered(self, status: os.stat_result) -> os.stat_result:
        in_use = {super(ForgetfulPort, self).fstat(one).st_ino for one in self._open}
        number = 1 if not in_use - {status.st_ino} else status.st_ino + 1
        return os.stat_result((status.st_mode, number, *status[2:]))


def test_sees_a_replacement_that_has_the_old_inode_number(path: Path) -> None:
    watched = WatchedFile(ForgetfulPort(), str(path))
    watched.refresh()
    replace(path, b"two")
    assert watched.refresh()
    assert watched.content == b"two"


def test_appearing_and_vanishing(tmp_path: Path) -> None:
    watched = WatchedFile(OsPort(), str(tmp_path / "list"))
    assert watched.refresh()
    assert watched.content is None
    assert not watched.refresh()
    replace(tmp_path / "list", b"")
    assert watched.refresh()
    assert watched.content == b""
    (tmp_path / "list").unlink()
    assert watched.refresh()
    assert watched.content is None


def test_forgotten_means_read_again(path: Path) -> None:
    watched = WatchedFile(OsPort(), str(path))
    watched.refresh()
    watched.forget()
    assert watched.refresh()
    assert watched.reads == 2


def test_holds_one_descriptor(path: Path) -> None:
    port = ForgetfulPort()
    watched = WatchedFile(port, str(path))
    for number in range(5):
        replace(path, b"%d" % number)
        watched.refresh()
    assert len(port._open) == 1
    watched.forget()
    assert not port._open

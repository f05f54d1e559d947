"""The index of a log: what it costs, and what it refuses."""

import errno
import os
from pathlib import Path

import pytest

from crashsim.disk import history
from crashsim.disk.base_image import BaseImage, BaseReadFailed, BaseUnreadable
from crashsim.disk.history import LogTooLarge
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log, LogDamaged, LogUnreadable, LogWriter
from crashsim.disk.log_format import DATA_NAME
from crashsim.disk.request import PAGE_BYTES, Operation, Request
from crashsim.disk.state import CrashState

SIZE = 16 << 30


def record(directory: Path, requests: list[Request]) -> Log:
    with LogWriter(directory, SIZE) as writer:
        for request in requests:
            writer.complete(writer.submit(request))
    return Log.open(directory)


def write(page: int) -> Request:
    return Request(Operation.WRITE, page * PAGE_BYTES, PAGE_BYTES, False, b"x" * PAGE_BYTES)


def discard(offset: int = 0, length: int = 4 << 30) -> Request:
    return Request(Operation.TRIM, offset, length - 512)


def test_a_discard_of_the_whole_disk_costs_only_what_holds_data(tmp_path: Path) -> None:
    with record(tmp_path, [discard(), write(5), discard(), write(1 << 20)]) as log:
        index = ImageIndex(log)
        assert index.history.sectors.tolist() == [5 * 8, (1 << 20) * 8]
        assert index.history.writes.tolist() == [0, 1, 2, 3]
        assert index.page(CrashState(4), 5) == b"x" * PAGE_BYTES
        assert index.page(CrashState(5), 5) == bytes(PAGE_BYTES)


def test_a_bomb_of_discards_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MAXIMUM_PAGE_WRITES", 10)
    bomb = [write(page) for page in range(4)] + [discard()] * 2
    with record(tmp_path, bomb) as log, pytest.raises(LogTooLarge, match="10"):
        ImageIndex(log)


def test_a_payload_that_vanished_is_told(tmp_path: Path) -> None:
    with record(tmp_path, [write(0)]) as log:
        index = ImageIndex(log)
        os.truncate(tmp_path / DATA_NAME, 100)
        with pytest.raises(LogDamaged, match="cut off at byte 100"):
            index.page(CrashState(2), 0)


def test_an_error_of_the_host_is_no_error_of_the_guest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An OSError would reach the guest as an I/O error of its disk, and become a false finding."""
    (tmp_path / "base.img").write_bytes(b"b" * PAGE_BYTES)
    base = BaseImage(tmp_path / "base.img", SIZE)

    def broken(*_: object) -> int:
        raise OSError(errno.EIO, "Input/output error")

    with record(tmp_path, [write(0)]) as log:
        monkeypatch.setattr(os, "preadv", broken)
        with pytest.raises(LogUnreadable, match="Input/output error"):
            ImageIndex(log).page(CrashState(2), 0)
        with pytest.raises(BaseReadFailed, match="Input/output error"):
            base.read_into(0, memoryview(bytearray(512)))
    base.close()


def test_a_base_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BaseUnreadable, match="No such file"):
        BaseImage(tmp_path / "base.img", SIZE)
    (tmp_path / "base.img").write_bytes(bytes(1024))
    with pytest.raises(BaseUnreadable, match="larger"):
        BaseImage(tmp_path / "base.img", 512)

"""The crash disk while it records: what it reads back, and what its log says."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log, LogWriter
from crashsim.disk.recording_disk import MemoryDisk, RecordingDisk
from crashsim.disk.request import Operation, Request
from crashsim.disk.server import Disk
from crashsim.disk.state import CrashState
from tests.support.disk_histories import DISK_BYTES, SECTOR, requests

READ_ALL = Request(Operation.READ, 0, DISK_BYTES)
bases = st.one_of(st.none(), st.integers(0, DISK_BYTES // SECTOR).map(lambda n: b"b" * n * SECTOR))


@settings(deadline=None)
@given(st.lists(requests(), max_size=12), bases, st.data())
def test_what_was_written_is_read_back_and_logged(
    asked: list[Request], base: bytes | None, data: st.DataObject
) -> None:
    expected = bytearray((base or b"").ljust(DISK_BYTES, b"\0"))
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        base_path = None
        if base is not None:
            base_path = directory / "base.img"
            base_path.write_bytes(base)
        with LogWriter(directory / "log", DISK_BYTES) as writer:
            disk = RecordingDisk(writer, DISK_BYTES, base_path)
            for request in asked:
                assert send(disk, request) == b""
                apply(expected, request)
                first = data.draw(st.integers(0, DISK_BYTES // SECTOR - 1)) * SECTOR
                read = Request(Operation.READ, first, DISK_BYTES - first)
                assert send(disk, read) == expected[first:]
            disk.close()
        with Log.open(directory / "log") as log:
            assert [log.request(number) for number in range(len(log.requests))] == asked
            end = CrashState(log.event_count)
            assert ImageIndex(log, base=base_path).read(end, 0, DISK_BYTES) == expected


@settings(deadline=None)
@given(st.lists(requests(), max_size=12))
def test_a_memory_disk_holds_what_was_written(asked: list[Request]) -> None:
    expected = bytearray(DISK_BYTES)
    disk = MemoryDisk(DISK_BYTES)
    for request in asked:
        send(disk, request)
        apply(expected, request)
        assert send(disk, READ_ALL) == expected
    disk.close()


def test_a_write_that_fails_is_not_read_back_but_may_have_happened(tmp_path: Path) -> None:
    write = Request(Operation.WRITE, 0, SECTOR, False, b"x" * SECTOR)
    with LogWriter(tmp_path, DISK_BYTES) as writer:
        disk = RecordingDisk(writer, DISK_BYTES)
        disk.replied(disk.arrived(write), 5)
        assert send(disk, READ_ALL) == bytes(DISK_BYTES)
    with Log.open(tmp_path) as log:
        index = ImageIndex(log)
        assert index.page(CrashState(2), 0)[:SECTOR] == write.data
        assert index.page(CrashState(2, frozenset({0})), 0) == bytes(4096)
        index.check_legal(CrashState(2, frozenset({0})))


def send(disk: Disk, request: Request) -> bytes:
    """One request from arrival to reply, as the server does it."""
    ticket = disk.arrived(request)
    data = disk.perform(request)
    disk.replied(ticket, 0)
    return data


def apply(image: bytearray, request: Request) -> None:
    """What a request does to plain bytes."""
    if request.changes_media:
        end = request.offset_bytes + request.length_bytes
        image[request.offset_bytes : end] = request.data or bytes(request.length_bytes)

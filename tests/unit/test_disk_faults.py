"""Disks that fail, and how a fault is written."""

import pytest

from crashsim.disk.faults import (
    FLUSHES,
    WRITES,
    BadFault,
    DiskFault,
    FaultyDisk,
    parse_disk_fault,
)
from crashsim.disk.recording_disk import MemoryDisk
from crashsim.disk.request import Operation, Request
from crashsim.workloads.trouble import parse_fault

SIZE_BYTES = 1 << 20


def _write(sector: int, letter: bytes = b"a") -> Request:
    return Request(Operation.WRITE, sector * 512, 512, data=letter * 512)


def _fails(disk: FaultyDisk, request: Request) -> bool:
    try:
        disk.perform(request)
    except OSError:
        return True
    return False


def _armed(fault: DiskFault) -> FaultyDisk:
    disk = FaultyDisk(MemoryDisk(SIZE_BYTES), fault)
    disk.arm()
    return disk


def test_the_second_write_fails_and_changes_nothing() -> None:
    disk = FaultyDisk(MemoryDisk(SIZE_BYTES), parse_disk_fault("write:2"))
    disk.perform(_write(0))
    disk.arm()

    outcomes = [
        _fails(disk, request)
        for request in (_write(1), Request(Operation.FLUSH), _write(2, b"b"), _write(3))
    ]

    assert outcomes == [False, False, True, False]
    assert disk.perform(Request(Operation.READ, 1024, 512)) == bytes(512)
    assert [(each.offset_bytes, each.data) for each in disk.failed] == [(1024, b"")]


def test_a_lasting_fault_stays() -> None:
    disk = _armed(parse_disk_fault("flush:2:EIO:lasting"))

    assert [_fails(disk, Request(Operation.FLUSH)) for _ in range(4)] == [False, True, True, True]
    assert not _fails(disk, _write(0))


def test_bad_sectors_fail_reads_and_writes_that_touch_them() -> None:
    disk = _armed(parse_disk_fault("sectors:4-5"))

    assert _fails(disk, Request(Operation.READ, 3 * 512, 1024))
    assert _fails(disk, _write(5))
    assert not _fails(disk, Request(Operation.READ, 0, 4 * 512))
    assert not _fails(disk, _write(6))


def test_a_fault_can_be_of_certain_content() -> None:
    disk = _armed(DiskFault(WRITES, content=b"bbb"))

    assert [_fails(disk, _write(n, letter)) for n, letter in enumerate((b"a", b"b", b"b"))] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    "text",
    ["", "write", "write:", "write:0", "write:-1", "write:1:ENOSPC", "flush:1:ever", "sectors:9-3"],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(BadFault, match="--fault"):
        parse_disk_fault(text)


def test_what_the_command_line_takes() -> None:
    assert parse_fault("flush:3").disk == DiskFault(FLUSHES, 3)
    assert parse_fault("free:64").free_bytes == 65536
    with pytest.raises(BadFault, match="KiB"):
        parse_fault("free:lots")

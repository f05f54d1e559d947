"""Each rule that a log's bytes must keep, broken: the message names the file, event and offset."""

import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from crashsim.disk.log import Log, LogDamaged, LogWriter
from crashsim.disk.log_format import DATA_NAME, EVENTS_NAME, HEADER, RECORD, EventKind
from crashsim.disk.request import Operation, Request

SIZE = 1 << 20
SUBMIT, COMPLETE, MARK = EventKind
WRITE, TRIM, FLUSH = Operation.WRITE, Operation.TRIM, Operation.FLUSH

GOOD = [
    (SUBMIT, WRITE, 0, 4096, 0, 0, 1),
    (COMPLETE, 0, 0, 0, 0, 4096, 2),
    (MARK, 0, 0, 3, 0, 4096, 3),
    (SUBMIT, FLUSH, 0, 0, 0, 4608, 4),
    (SUBMIT, TRIM, 1, 512, SIZE - 512, 4608, 5),
]
DATA = b"a" * 4096 + b"abc".ljust(512, b"\0")


def write_log(directory: Path, records: Sequence[tuple[int, ...]], data: bytes = DATA) -> None:
    LogWriter(directory, SIZE).close()
    with (directory / EVENTS_NAME).open("ab") as events:
        events.write(b"".join(RECORD.pack(*record) for record in records))
    (directory / DATA_NAME).write_bytes(data)


def test_the_good_log_is_good(tmp_path: Path) -> None:
    write_log(tmp_path, GOOD)
    with Log.open(tmp_path) as log:
        assert log.truncated == ""
        assert log.request(2) == Request(TRIM, SIZE - 512, 512, True)
        assert [mark.text for mark in log.marks] == ["abc"]


@pytest.mark.parametrize(
    ("position", "record", "message"),
    [
        (0, (0, WRITE, 0, 4096, 0, 0, 1), "unknown event"),
        (0, (4, WRITE, 0, 4096, 0, 0, 1), "unknown event"),
        (0, (SUBMIT, Operation.READ, 0, 4096, 0, 0, 1), "unknown operation"),
        (0, (SUBMIT, 5, 0, 4096, 0, 0, 1), "unknown operation"),
        (0, (SUBMIT, WRITE, 2, 4096, 0, 0, 1), "unknown operation or flag"),
        (0, (SUBMIT, WRITE, 0, 4096, 0, 0, 1 << 63), "impossible time"),
        (0, (SUBMIT, WRITE, 0, 4096, SIZE, 0, 1), "outside of the disk"),
        (0, (SUBMIT, WRITE, 0, 4096, SIZE - 512, 0, 1), "outside of the disk"),
        (0, (SUBMIT, WRITE, 0, 4096, (1 << 64) - 512, 0, 1), "outside of the disk"),
        (0, (SUBMIT, WRITE, 0, 1 << 31, 0, 0, 1), "outside of the disk"),
        (0, (SUBMIT, WRITE, 0, 4096, 100, 0, 1), "not aligned"),
        (0, (SUBMIT, WRITE, 0, 4095, 0, 0, 1), "not aligned"),
        (0, (SUBMIT, WRITE, 0, 0, 0, 0, 1), "outside of the disk or not"),
        (3, (SUBMIT, FLUSH, 0, 512, 0, 4608, 4), "outside of the disk or not"),
        (3, (SUBMIT, FLUSH, 0, 0, 512, 4608, 4), "outside of the disk or not"),
        (0, (SUBMIT, WRITE, 0, 4096, 0, 512, 1), "payload out of place"),
        (2, (MARK, 0, 0, 3, 0, 4095, 3), "payload out of place"),
        (2, (MARK, 0, 0, 3, 0, (1 << 64) - 1, 3), "payload out of place"),
        (4, (SUBMIT, TRIM, 1, 512, 0, 4096, 5), "payload out of place"),
        (1, (COMPLETE, 0, 0, 0, 99, 4096, 2), "unknown request"),
        (1, (COMPLETE, 0, 0, 0, (1 << 64) - 1, 4096, 2), "unknown request"),
        (1, (COMPLETE, 0, 0, 4096, 0, 4096, 2), "impossible error"),
    ],
)
def test_nonsense_is_told(
    tmp_path: Path, position: int, record: tuple[int, ...], message: str
) -> None:
    records: list[tuple[int, ...]] = [*GOOD]
    records[position] = record
    write_log(tmp_path, records)
    with pytest.raises(LogDamaged, match=message) as caught:
        Log.open(tmp_path)
    offset = HEADER.size + position * RECORD.size
    assert f"{tmp_path / EVENTS_NAME}: " in str(caught.value)
    assert f"(event {position}, byte {offset})" in str(caught.value)


@pytest.mark.parametrize("number", [0, 1])
def test_a_request_that_ends_twice_or_too_early_is_told(tmp_path: Path, number: int) -> None:
    write_log(tmp_path, [*GOOD[:2], (COMPLETE, 0, 0, 0, number, 4096, 3), *GOOD[2:]])
    with pytest.raises(LogDamaged, match=r"ends twice or before its start \(event 2"):
        Log.open(tmp_path)


def test_a_request_that_ends_twice_in_different_chunks_is_told(tmp_path: Path) -> None:
    marks = [(MARK, 0, 0, 0, 0, 4096, 1)] * (1 << 16)
    again = (COMPLETE, 0, 0, 0, 0, 4096, 1)
    write_log(tmp_path, [*GOOD[:2], *marks, again], DATA[:4096])
    with pytest.raises(LogDamaged, match=r"ends twice or before its start \(event 65538"):
        Log.open(tmp_path)


def test_a_mark_that_is_too_long_or_no_text_is_told(tmp_path: Path) -> None:
    length = (1 << 20) + 512
    write_log(tmp_path / "long", [(MARK, 0, 0, length, 0, 0, 1)], bytes(length))
    with pytest.raises(LogDamaged, match="mark too long"):
        Log.open(tmp_path / "long")
    write_log(tmp_path / "bytes", [(MARK, 0, 0, 3, 0, 0, 1)], b"\xff\xfe\xfd".ljust(512))
    with pytest.raises(LogDamaged, match=f"{DATA_NAME}: mark that is no UTF-8"):
        Log.open(tmp_path / "bytes")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (HEADER.pack(b"crshlog?", 1, 32, SIZE, 0), "not a log"),
        (HEADER.pack(b"crshlog\n", 2, 32, SIZE, 0), "version 2"),
        (HEADER.pack(b"crshlog\n", 1, 64, SIZE, 0), "not a log"),
        (HEADER.pack(b"crshlog\n", 1, 32, SIZE, 1), "not a log"),
        (HEADER.pack(b"crshlog\n", 1, 32, 0, 0), "disk size 0"),
        (HEADER.pack(b"crshlog\n", 1, 32, 513, 0), "disk size 513"),
        (HEADER.pack(b"crshlog\n", 1, 32, 1 << 63, 0), "disk size"),
        (struct.pack("<I", 7), "no log"),
    ],
)
def test_a_wrong_header_is_told(tmp_path: Path, header: bytes, message: str) -> None:
    write_log(tmp_path, GOOD)
    events = tmp_path / EVENTS_NAME
    rest = events.read_bytes()[HEADER.size :] if len(header) == HEADER.size else b""
    events.write_bytes(header + rest)
    with pytest.raises(LogDamaged, match=message):
        Log.open(tmp_path)

"""Logs in the format of dm-log-writes: there, and back again."""

import struct
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from crashsim.disk.dm_log_export import export_dm_log
from crashsim.disk.dm_log_writes import DmLogDamaged, import_dm_log
from crashsim.disk.durability import durable_positions, pending
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log, LogWriter
from crashsim.disk.request import Operation, Request
from crashsim.disk.state import CrashState
from crashsim.errors import UsageError
from tests.support.disk_histories import (
    DISK_BYTES,
    SECTOR,
    Complete,
    History,
    Mark,
    Submit,
    histories,
)

FLUSH, FUA, DISCARD, MARK, METADATA = 1, 2, 4, 8, 16


@settings(deadline=None)
@given(histories())
def test_there_and_back_keeps_the_final_image_and_what_is_durable(history: History) -> None:
    marked = _with_marks(history)
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with marked.record(directory / "source") as log:
            export_dm_log(log, directory / "dm.log")
            import_dm_log(directory / "dm.log", directory / "copy", DISK_BYTES)
            with Log.open(directory / "copy") as copy:
                assert [mark.text for mark in copy.marks] == [mark.text for mark in log.marks]
                assert _image(copy, copy.event_count) == _image(log, log.event_count)
                cuts = [(log.event_count, copy.event_count)]
                cuts += [
                    (one.position, other.position)
                    for one, other in zip(log.marks, copy.marks, strict=True)
                ]
                for one, other in cuts:
                    assert _durable_image(copy, other) == _durable_image(log, one)


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), st.integers(0, 2000))
def test_marks_of_any_length_come_back(text: str, repeats: int) -> None:
    marks = [text, text * repeats, "x", "crashsim-part:" + text * repeats]
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with History([Mark(each) for each in marks]).record(directory / "source") as log:
            export_dm_log(log, directory / "dm.log")
        import_dm_log(directory / "dm.log", directory / "copy", DISK_BYTES)
        with Log.open(directory / "copy") as copy:
            assert [mark.text for mark in copy.marks] == marks


@settings(deadline=None)
@given(histories(maximum_events=8), st.data())
def test_damaged_logs_are_refused(history: History, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        path = directory / "dm.log"
        with history.record(directory / "source") as log:
            export_dm_log(log, path)
        damaged = bytearray(path.read_bytes())
        headers = [*range(28), *range(512, min(544, len(damaged)))]
        for _ in range(data.draw(st.integers(1, 3))):
            damaged[data.draw(st.sampled_from(headers))] = data.draw(st.integers(0, 255))
        path.write_bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
        error = _import_error(path, directory / "copy")
        event("told" if error else "harmless")
        if error:
            assert str(path) in error
        else:
            Log.open(directory / "copy").close()


def entry(sector: int, sectors: int, flags: int, mark: bytes = b"", size: int = SECTOR) -> bytes:
    header = struct.pack("<QQQQ", sector, sectors, flags, len(mark))
    return (header + mark).ljust(size, b"\0")


def superblock(entries: int, size: int = SECTOR) -> bytes:
    return struct.pack("<QQQI", 0x6A736677736872, 1, entries, size).ljust(size, b"\0")


def test_a_log_as_the_kernel_writes_it(tmp_path: Path) -> None:
    """The bytes are put together from the kernel's own description of its format."""
    path = tmp_path / "dm.log"
    path.write_bytes(
        superblock(7)
        + entry(8, 1, METADATA)
        + b"a" * SECTOR
        + entry(2, 1, FUA | METADATA)
        + b"b" * SECTOR
        + entry(0, 0, MARK, b"mkfs")
        + entry(8, 4, DISCARD)
        + entry(0, 0, FLUSH)
        + entry(4, 1, 0)
        + b"c" * SECTOR
        + entry(0, 0, MARK, b"dm-log-writes-end")
        + entry(99, 1, 0)  # Not counted by the superblock: never got there.
    )
    import_dm_log(path, tmp_path / "log", DISK_BYTES)
    with Log.open(tmp_path / "log") as log:
        requests = log.requests
        assert requests.operation.tolist() == [1, 1, 3, 4, 1]
        assert (requests.offset_bytes // SECTOR).tolist() == [8, 2, 8, 0, 4]
        assert (requests.length_bytes // SECTOR).tolist() == [1, 1, 4, 0, 1]
        assert requests.fua.tolist() == [False, True, False, False, False]
        assert not requests.submitted_ns.any()  # the kernel does not log when
        # The kernel's own mark at the end is no promise.
        assert [(mark.position, mark.text) for mark in log.marks] == [(4, "mkfs")]
        assert pending(log, 5).tolist() == [0]
        assert pending(log, log.event_count).tolist() == [4]
        flushed = requests.completed_at[3] + 1
        assert durable_positions(log)[[0, 1, 2]].tolist() == [flushed, 4, flushed]
        image = _image(log, log.event_count)
        assert image[8 * SECTOR : 9 * SECTOR] == bytes(SECTOR)
        assert image[2 * SECTOR : 3 * SECTOR] == b"b" * SECTOR


def test_sectors_of_4096_bytes_and_a_flush_with_data(tmp_path: Path) -> None:
    path = tmp_path / "dm.log"
    path.write_bytes(superblock(1, 4096) + entry(1, 2, FLUSH, size=4096) + b"d" * 8192)
    import_dm_log(path, tmp_path / "log", DISK_BYTES)
    with Log.open(tmp_path / "log") as log:
        assert log.requests.operation.tolist() == [Operation.FLUSH, Operation.WRITE]
        assert pending(log, log.event_count).tolist() == [1]
        assert _image(log, log.event_count)[4096:12288] == b"d" * 8192


def test_long_entries_are_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "dm.log"
    size = 3 << 30
    sectors = (9 << 20) // SECTOR
    with path.open("wb") as file:
        file.write(superblock(2) + entry(0, size // SECTOR, DISCARD) + entry(0, sectors, 0))
        file.truncate(file.tell() + (9 << 20))
    import_dm_log(path, tmp_path / "log", size)
    with Log.open(tmp_path / "log") as log:
        assert log.requests.length_bytes.tolist() == [1 << 30] * 3 + [4 << 20, 4 << 20, 1 << 20]
        assert log.requests.offset_bytes[-1] == 8 << 20


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    path = tmp_path / "dm.log"
    for content, expected in (
        (b"", "cut off"),
        (bytes(512), "no log"),
        (superblock(0, 512)[:24] + struct.pack("<I", 500) + bytes(484), "sector size 500"),
        (superblock(1), "cut off"),
        (superblock(1) + entry(0, 1, 0), "cut off"),
        (superblock(1) + entry(DISK_BYTES // SECTOR, 1, 0), "outside"),
        (superblock(1) + entry(1 << 63, 1 << 63, DISCARD), "outside"),
        (superblock(1) + struct.pack("<QQQQ", 0, 0, MARK, 481).ljust(512), "too long"),
    ):
        path.write_bytes(content)
        with tempfile.TemporaryDirectory(dir=tmp_path) as directory:
            assert expected in _import_error(path, Path(directory))
    with pytest.raises(DmLogDamaged, match="No such file"):
        import_dm_log(tmp_path / "missing", tmp_path / "log", DISK_BYTES)


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "dm.log").write_text("mine")
    with History().record(tmp_path) as log, pytest.raises(UsageError, match="exists"):
        export_dm_log(log, tmp_path / "dm.log")
    assert (tmp_path / "dm.log").read_text() == "mine"


def test_what_a_flush_covers_is_exported_before_it(tmp_path: Path) -> None:
    """Two flushes in flight, of which the later one ends first; then one that failed."""
    flush = Submit(Request(Operation.FLUSH))
    history = History(
        [
            *(Submit(_write(0)), Complete(0, 0), flush),
            *(Submit(_write(1)), Complete(2, 0), flush, Submit(_write(2)), Complete(4, 0)),
            *(Complete(3, 0), Mark("0 and 1"), Complete(1, 0), Mark("still 0 and 1")),
            *(flush, Complete(5, 5), Mark("still not 2")),
            *(flush, Complete(6, 0), Mark("all")),
        ]
    )
    with history.record(tmp_path / "source") as log:
        export_dm_log(log, tmp_path / "dm.log")
    import_dm_log(tmp_path / "dm.log", tmp_path / "copy", DISK_BYTES)
    with Log.open(tmp_path / "copy") as copy:
        durable = [
            [_durable_image(copy, mark.position)[page * 4096] for page in range(3)]
            for mark in copy.marks
        ]
    assert durable == [[1, 1, 0], [1, 1, 0], [1, 1, 0], [1, 1, 1]]


def _write(page: int) -> Request:
    return Request(Operation.WRITE, page * 4096, 4096, False, b"\1" * 4096)


def _with_marks(history: History) -> History:
    """The same with a mark after every event, so that every moment can be found again."""
    marked = History()
    for number, each in enumerate(history.events):
        marked.events += [each, Mark(f"after {number}")]
    return marked


def _image(log: Log, cut: int) -> bytes:
    return ImageIndex(log).read(CrashState(cut), 0, DISK_BYTES)


def _durable_image(log: Log, cut: int) -> bytes:
    state = CrashState.make(cut, pending(log, cut).tolist())
    return ImageIndex(log).read(state, 0, DISK_BYTES)


def _import_error(path: Path, directory: Path) -> str:
    try:
        import_dm_log(path, directory, DISK_BYTES)
    except DmLogDamaged as error:
        return str(error)
    return ""


def test_writer_and_kernel_agree_about_the_size_of_a_sector(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", DISK_BYTES) as writer:
        writer.mark("m")
    with Log.open(tmp_path / "log") as log:
        export_dm_log(log, tmp_path / "dm.log")
    content = (tmp_path / "dm.log").read_bytes()
    assert content == superblock(1) + entry(0, 0, MARK, b"m")
    assert np.frombuffer(content[:28], "<u4")[6] == SECTOR

"""The log on disk: what is written is read, whatever ends the writer, and damage is told."""

import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from crashsim.disk.log import NEVER, Log, LogDamaged, LogMark, LogWriter
from crashsim.disk.log_format import DATA_NAME, EVENTS_NAME, HEADER, RECORD
from crashsim.disk.log_writer import RecordingDiskFull, RecordingExists
from crashsim.disk.request import Operation, Request
from crashsim.errors import UsageError

SIZE = 1 << 20
FLUSH = Request(Operation.FLUSH)


def write(offset: int, data: bytes, fua: bool = False) -> Request:
    return Request(Operation.WRITE, offset, len(data), fua, data)


def small_log(directory: Path) -> None:
    """Two writes, two marks, a flush; the second write never ends."""
    with LogWriter(directory, SIZE) as writer:
        writer.submit(write(0, b"a" * 4096))
        writer.mark("first é")
        writer.complete(0)
        writer.submit(FLUSH)
        writer.submit(write(8192, b"b" * 512, fua=True))
        writer.complete(1, errno.EIO)
        writer.mark("")


def test_a_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    small_log(tmp_path)
    with Log.open(tmp_path) as log:
        assert log.size_bytes == SIZE
        assert log.event_count == 7
        assert log.truncated == ""
        requests = log.requests
        assert requests.operation.tolist() == [Operation.WRITE, Operation.FLUSH, Operation.WRITE]
        assert requests.fua.tolist() == [False, False, True]
        assert requests.offset_bytes.tolist() == [0, 0, 8192]
        assert requests.length_bytes.tolist() == [4096, 0, 512]
        assert requests.submitted_at.tolist() == [0, 3, 4]
        assert requests.completed_at.tolist() == [2, 5, NEVER]
        assert requests.error.tolist() == [0, errno.EIO, 0]
        assert (requests.completed_ns >= requests.submitted_ns).all()
        assert [(mark.position, mark.text) for mark in log.marks] == [(1, "first é"), (6, "")]
        assert [log.payload(number) for number in range(3)] == [b"a" * 4096, b"", b"b" * 512]
        assert [log.submitted_before(cut) for cut in range(8)] == [0, 1, 1, 1, 2, 3, 3, 3]
        assert log.marks_before(6) == log.marks[:1]


def test_marks_from_other_threads_are_whole(tmp_path: Path) -> None:
    with LogWriter(tmp_path, SIZE) as writer:
        positions: list[tuple[int, str]] = []

        def mark(name: str) -> None:
            for number in range(200):
                text = f"{name}{number}"
                positions.append((writer.mark(text), text))

        threads = [threading.Thread(target=mark, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        for number in range(200):
            writer.complete(writer.submit(write(0, bytes([number]) * 512)))
        for thread in threads:
            thread.join()
    with Log.open(tmp_path) as log:
        assert [(mark.position, mark.text) for mark in log.marks] == sorted(positions)
        assert [log.payload(number)[0] for number in range(200)] == list(range(200))


KILLED_WRITER = """
import sys
from pathlib import Path
from crashsim.disk.log import LogWriter
from crashsim.disk.request import Operation, Request
with LogWriter(Path(sys.argv[1]), 1 << 20) as writer:
    number = 0
    while True:
        data = number.to_bytes(4, "little") * 128
        writer.submit(Request(Operation.WRITE, 0, 512, False, data))
        writer.complete(number)
        number += 1
        print(number, flush=True)
"""


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_WRITER, str(tmp_path / "log")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        acknowledged = 0
        while acknowledged < 500:
            acknowledged = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        acknowledged = max([acknowledged, *map(int, process.stdout.read().split()[:-1])])
    assert process.returncode == -signal.SIGKILL
    with Log.open(tmp_path / "log") as log:
        assert len(log.requests) >= acknowledged
        assert (log.requests.completed_at[:acknowledged] != NEVER).all()
        for number in range(len(log.requests)):
            assert log.payload(number) == number.to_bytes(4, "little") * 128


def test_half_an_event_at_the_end_is_left_out(tmp_path: Path) -> None:
    small_log(tmp_path)
    events = tmp_path / EVENTS_NAME
    whole = events.read_bytes()
    for cut_off in range(1, len(whole) - HEADER.size + 1):
        events.write_bytes(whole[:-cut_off])
        with Log.open(tmp_path) as log:
            assert log.event_count == (len(whole) - cut_off - HEADER.size) // RECORD.size
            assert ("half an event" in log.truncated) == (cut_off % RECORD.size != 0)
    for length in range(HEADER.size):
        events.write_bytes(whole[:length])
        with pytest.raises(LogDamaged, match=EVENTS_NAME):
            Log.open(tmp_path)


def test_events_without_their_payload_are_left_out(tmp_path: Path) -> None:
    small_log(tmp_path)
    data = tmp_path / DATA_NAME
    whole = data.read_bytes()
    # The payloads are: 4096 (event 0), a mark in 512 (event 1), 512 (event 4), an empty mark.
    for length, events in ((4096 + 1024 - 1, 4), (4096 + 512, 4), (4096, 1), (4095, 0), (0, 0)):
        data.write_bytes(whole[:length])
        with Log.open(tmp_path) as log:
            assert log.event_count == events
            assert DATA_NAME in log.truncated


def test_an_existing_log_is_not_overwritten(tmp_path: Path) -> None:
    small_log(tmp_path)
    before = (tmp_path / EVENTS_NAME).read_bytes()
    with pytest.raises(RecordingExists):
        LogWriter(tmp_path, SIZE)
    assert (tmp_path / EVENTS_NAME).read_bytes() == before


def test_a_missing_log_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        Log.open(tmp_path / "nothing")


@pytest.mark.parametrize(
    "request_",
    [
        Request(Operation.READ, 0, 512),
        Request(Operation.FLUSH, 0, 512),
        Request(Operation.TRIM, 0, 0),
        Request(Operation.TRIM, 256, 512),
        Request(Operation.TRIM, SIZE, 512),
        Request(Operation.TRIM, -512, 512),
        Request(Operation.WRITE, 0, 512, False, b"short"),
        Request(Operation.TRIM, 0, 512, False, b"x" * 512),
    ],
)
def test_a_request_that_does_not_fit_is_refused(tmp_path: Path, request_: Request) -> None:
    with LogWriter(tmp_path, SIZE) as writer, pytest.raises(ValueError, match=r"."):
        writer.submit(request_)
    with Log.open(tmp_path) as log:
        assert log.event_count == 0


def test_completing_twice_is_refused(tmp_path: Path) -> None:
    with LogWriter(tmp_path, SIZE) as writer:
        writer.complete(writer.submit(FLUSH))
        with pytest.raises(ValueError, match="twice"):
            writer.complete(0)
        with pytest.raises(IndexError):
            writer.complete(1)


def test_a_full_disk_leaves_what_was_recorded_readable(tmp_path: Path) -> None:
    """The kernel's file size limit stands for the full disk: both end a write(2) half-way."""
    limit = 64 * 1024
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        with LogWriter(tmp_path, SIZE) as writer:
            for _ in range(limit // 3072):
                writer.complete(writer.submit(write(0, b"x" * 3072)))
            with pytest.raises(RecordingDiskFull, match="stays readable"):
                writer.submit(write(0, b"x" * 3072))
            with pytest.raises(RecordingDiskFull):
                writer.mark("too late")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    with Log.open(tmp_path) as log:
        assert len(log.requests) == limit // 3072
        assert log.event_count == 2 * len(log.requests)
        assert log.truncated == ""
        assert log.payload(20) == b"x" * 3072


def test_a_real_full_file_system_is_told(tmp_path: Path) -> None:
    """/dev/full answers every write with ENOSPC, as a full file system does."""
    with LogWriter(tmp_path, SIZE) as writer:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, writer._events)
        os.close(full)
        with pytest.raises(RecordingDiskFull):
            writer.submit(FLUSH)
    with Log.open(tmp_path) as log:
        assert log.event_count == 0


def test_a_log_can_be_read_while_it_is_written(tmp_path: Path) -> None:
    with LogWriter(tmp_path, SIZE) as writer:
        writer.mark("one")
        with Log.open(tmp_path) as log:
            assert log.marks == (LogMark(0, "one", log.marks[0].time_ns),)
        writer.submit(FLUSH)
        with Log.open(tmp_path) as log:
            assert log.event_count == 2

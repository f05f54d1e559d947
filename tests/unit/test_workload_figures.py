from pathlib import Path

import pytest

from crashsim.disk.log import Log
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.request import Operation, Request
from crashsim.workloads.figures import Figures, NoStart, Span, figures, span
from crashsim.workloads.marks import END, START, step_mark

WRITE = Request(Operation.WRITE, 0, 1024, data=b"x" * 1024)
TRIM = Request(Operation.TRIM, 0, 4096)
FLUSH = Request(Operation.FLUSH)


def write_log(directory: Path, *events: Request | str) -> Log:
    with LogWriter(directory, 1 << 20) as writer:
        for event in events:
            if isinstance(event, str):
                writer.mark(event)
            else:
                writer.complete(writer.submit(event))
    return Log.open(directory)


def test_only_what_lies_between_the_marks_is_counted(tmp_path: Path) -> None:
    outside = (WRITE, FLUSH, "a promise")
    inside = (WRITE, TRIM, step_mark("x"), FLUSH, FLUSH, FLUSH, "saved", WRITE)
    with write_log(tmp_path, *outside, START, *inside, END, *outside) as log:
        assert figures(log) == Figures(writes=3, flushes=3, bytes=2048, promises=1)
        assert span(log) == Span(5, 20)


def test_a_recording_cut_short_counts_to_its_last_event(tmp_path: Path) -> None:
    with write_log(tmp_path, WRITE, START, WRITE, FLUSH) as log:
        assert figures(log) == Figures(writes=1, flushes=1, bytes=1024, promises=0)
        assert span(log).end == log.event_count


def test_a_recording_without_a_start_is_refused(tmp_path: Path) -> None:
    with write_log(tmp_path, WRITE, END) as log, pytest.raises(NoStart):
        span(log)

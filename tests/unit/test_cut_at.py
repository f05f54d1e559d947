"""Where a life is cut, and what is left of it."""

import random
from pathlib import Path

import pytest

from crashsim.campaigns.cut_at import (
    BadCut,
    CutAt,
    Where,
    cut_position,
    parse_cut_at,
    survivor_state,
)
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.profile import DEFAULT_PROFILE
from crashsim.disk.request import Operation, Request
from crashsim.explore.timeline import Timeline
from crashsim.workloads.marks import END, START, step_mark

STEPS = ("add-1", "commit-2")


def write(writer: LogWriter, number: int, *, done: bool = True) -> None:
    request = writer.submit(Request(Operation.WRITE, number * 4096, 4096, data=bytes([1]) * 4096))
    if done:
        writer.complete(request)


def flush(writer: LogWriter) -> None:
    writer.complete(writer.submit(Request(Operation.FLUSH)))


def life(directory: Path, steps: tuple[str, ...] = STEPS) -> tuple[Log, Timeline]:
    """A recovery of three writes, then five writes and a flush in each step."""
    with LogWriter(directory, 1 << 20) as writer:
        writer.mark("of the life before")
        for number in range(3):
            write(writer, number)
        flush(writer)
        if steps:
            writer.mark(START)
        writer.mark("begun")
        for step in steps:
            writer.mark(step_mark(step))
            for number in range(5):
                write(writer, 10 + number)
            flush(writer)
            writer.mark(f"done {step}")
        writer.mark(END)
        write(writer, 20)
    log = Log.open(directory)
    return log, Timeline.of(log, DEFAULT_PROFILE)


@pytest.mark.parametrize("text", ["moment", "mark:commit", "write:1", "flush:12"])
def test_what_is_read_is_spelled_as_it_was_written(text: str) -> None:
    assert parse_cut_at(text).spelling == text


@pytest.mark.parametrize(
    "text", ["", "moment:1", "mark", "mark:", "write", "write:0", "write:-1", "write:x", "now"]
)
def test_nonsense_is_refused_in_one_line(text: str) -> None:
    if text == "":
        assert parse_cut_at(None) == CutAt()
        return
    with pytest.raises(BadCut, match="--cut-at takes"):
        parse_cut_at(text)


def test_the_nth_request_counts_from_the_lifes_own_beginning(tmp_path: Path) -> None:
    log, timeline = life(tmp_path / "r")
    with log:
        writes = log.requests.submitted_at[log.requests.changes_media].tolist()
        flushes = log.requests.submitted_at[~log.requests.changes_media].tolist()
        for count in (1, 5, 6, 10):
            cut = cut_position(log, timeline, CutAt(Where.WRITE, count=count), random.Random(0))
            assert cut == writes[3 + count - 1] + 1
        cut = cut_position(log, timeline, CutAt(Where.FLUSH, count=2), random.Random(0))
        assert cut == flushes[2] + 1


def test_a_life_that_ends_before_is_cut_at_its_end(tmp_path: Path) -> None:
    log, timeline = life(tmp_path / "r")
    end = next(mark.position for mark in log.marks if mark.text == END)
    with log:
        for count in (11, 1000):
            at = CutAt(Where.WRITE, count=count)
            assert cut_position(log, timeline, at, random.Random(0)) == end


def test_a_mark_is_cut_right_after_its_promise(tmp_path: Path) -> None:
    log, timeline = life(tmp_path / "r")
    with log:
        cut = cut_position(log, timeline, CutAt(Where.MARK, name="commit"), random.Random(0))
        assert log.marks_before(cut)[-1].text == "done commit-2"
        assert log.marks_before(cut)[-1].position == cut - 1


def test_seeded_moments_are_in_the_last_step_or_right_after_it(tmp_path: Path) -> None:
    log, timeline = life(tmp_path / "r")
    begin = next(mark.position for mark in log.marks if mark.text == step_mark("commit-2"))
    end = next(mark.position for mark in log.marks if mark.text == END)
    with log:
        cuts = {cut_position(log, timeline, CutAt(), random.Random(seed)) for seed in range(200)}
    assert all(begin < cut <= end for cut in cuts)
    assert len(cuts) == 6  # after each of five writes, and after the promise


def test_without_steps_the_recovery_is_cut_unless_it_was_lossy(tmp_path: Path) -> None:
    log, timeline = life(tmp_path / "r", ())
    begun = next(mark.position for mark in log.marks if mark.text == "begun")
    with log:
        for seed in range(50):
            cut = cut_position(log, timeline, CutAt(), random.Random(seed))
            assert 1 < cut < begun
            cut = cut_position(log, timeline, CutAt(), random.Random(seed), after_recovery=True)
            assert cut == begun + 1


def test_what_is_left_is_legal_repeatable_and_not_always_the_same(tmp_path: Path) -> None:
    log, timeline = life(tmp_path / "r")
    first = next(mark.position for mark in log.marks if mark.text == step_mark("commit-2"))
    with log:
        images = ImageIndex(log)
        states = set()
        for seed in range(100):
            cut = first + 2 + seed % 8
            state = survivor_state(timeline, cut, 512, random.Random(seed))
            assert state == survivor_state(timeline, cut, 512, random.Random(seed))
            assert state.cut == cut
            images.check_legal(state)
            states.add((state.dropped, state.torn))
        assert len(states) > 8
        assert any(torn for _, torn in states)

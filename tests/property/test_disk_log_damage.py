"""Damaged logs: whatever the bytes are, a log is read or LogDamaged says where it is wrong."""

import tempfile
from pathlib import Path

from hypothesis import event, given, settings
from hypothesis import strategies as st

from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log, LogDamaged
from crashsim.disk.log_format import DATA_NAME, EVENTS_NAME, HEADER, RECORD
from crashsim.disk.request import Operation
from crashsim.disk.state import CrashState
from tests.support.disk_histories import DISK_BYTES, Complete, History, Mark, Submit, histories


@settings(deadline=None)
@given(histories())
def test_a_log_says_what_happened(history: History) -> None:
    with tempfile.TemporaryDirectory() as name, history.record(Path(name)) as log:
        events: dict[int, object] = {mark.position: Mark(mark.text) for mark in log.marks}
        for number in range(len(log.requests)):
            events[int(log.requests.submitted_at[number])] = Submit(log.request(number))
            done = Complete(number, int(log.requests.error[number]))
            events[int(log.requests.completed_at[number])] = done
        assert [events[position] for position in range(log.event_count)] == history.events


@settings(deadline=None)
@given(histories(), st.data())
def test_damage_is_told_or_harmless(history: History, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        history.record(directory).close()
        for file in (EVENTS_NAME, DATA_NAME):
            path = directory / file
            path.write_bytes(_damage(path.read_bytes(), data))
        log, error = _open(directory)
        if log is None:
            event("told")
            assert name in error
            return
        event("harmless")
        with log:
            _use_everything(log)


@settings(deadline=None)
@given(st.binary(max_size=4 * RECORD.size), st.binary(max_size=2048))
def test_any_bytes_after_a_good_header(body: bytes, payloads: bytes) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        History().record(directory).close()
        header = (directory / EVENTS_NAME).read_bytes()
        assert len(header) == HEADER.size
        (directory / EVENTS_NAME).write_bytes(header + body)
        (directory / DATA_NAME).write_bytes(payloads)
        log, _ = _open(directory)
        if log is not None:
            with log:
                _use_everything(log)


def _open(directory: Path) -> tuple[Log | None, str]:
    try:
        return Log.open(directory), ""
    except LogDamaged as error:
        return None, str(error)


def _damage(content: bytes, data: st.DataObject) -> bytes:
    """Change a few bytes, and perhaps cut the end off."""
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(0, 3))):
        if damaged:
            damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    return bytes(damaged[: data.draw(st.integers(0, len(damaged)))])


def _use_everything(log: Log) -> None:
    requests = log.requests
    assert ((requests.offset_bytes + requests.length_bytes) <= log.size_bytes).all()
    for number in range(len(requests)):
        is_write = requests.operation[number] == Operation.WRITE
        assert len(log.payload(number)) == (requests.length_bytes[number] if is_write else 0)
    if log.size_bytes == DISK_BYTES:
        index = ImageIndex(log)
        state = CrashState(log.event_count)
        assert len(index.read(state, 0, DISK_BYTES)) == DISK_BYTES
        index.identity(state)

"""Two disks with one log: a FLUSH is of one of them, a crash state is of both."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crashsim.disk.crash_disk import CrashStateDisk
from crashsim.disk.dm_log_export import export_dm_log
from crashsim.disk.durability import durable_positions, pending
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import NEVER, Log, LogDamaged, LogWriter
from crashsim.disk.log_format import EVENTS_NAME
from crashsim.disk.nbd import NbdServer, socket_pair
from crashsim.disk.recording import Manifest, Recording
from crashsim.disk.recording_disk import RecordingDisk
from crashsim.disk.request import Operation, Request
from crashsim.disk.slice import slice_recording
from crashsim.disk.state import CrashState
from crashsim.disk.windows import windows
from crashsim.errors import UsageError
from tests.support.disk_histories import DISK_BYTES, SECTOR, History, histories, states
from tests.support.nbd_client import FLUSH, READ, NbdClient

DISKS = 2
W0 = Request(Operation.WRITE, 0, SECTOR, False, b"a" * SECTOR)
W1 = Request(Operation.WRITE, DISK_BYTES, SECTOR, False, b"b" * SECTOR)
F0 = Request(Operation.FLUSH)
F1 = Request(Operation.FLUSH, DISK_BYTES)


def record(directory: Path, *requests: Request) -> Log:
    """Each ends before the next one comes."""
    with LogWriter(directory, DISKS * DISK_BYTES, DISKS) as writer:
        for request in requests:
            writer.complete(writer.submit(request))
    return Log.open(directory)


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([W0, W1, F0], [6, NEVER, NEVER]),
        ([W0, W1, F1], [NEVER, 6, NEVER]),
        ([W0, W1, F0, F1], [6, 8, NEVER, NEVER]),
    ],
)
def test_a_flush_is_of_one_disk(
    tmp_path: Path, requests: list[Request], expected: list[int]
) -> None:
    with record(tmp_path, *requests) as log:
        assert durable_positions(log).tolist() == expected


@settings(max_examples=120, deadline=None)
@given(histories(disks=DISKS))
def test_what_may_be_lost_is_what_the_definition_says(history: History) -> None:
    with tempfile.TemporaryDirectory() as name, history.record(Path(name) / "log") as log:
        assert (log.disks, log.disk_bytes) == (DISKS, DISK_BYTES)
        durable = durable_positions(log)
        for cut in range(len(history.events) + 1):
            assert pending(log, cut, durable).tolist() == history.pending(cut)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_a_crash_state_is_an_image_of_both_disks(data: st.DataObject) -> None:
    history = data.draw(histories(disks=DISKS))
    state = data.draw(states(history))
    image = history.image(state, SECTOR)
    with tempfile.TemporaryDirectory() as name, history.record(Path(name) / "log") as log:
        index = ImageIndex(log)
        index.check_legal(state)
        disk = CrashStateDisk(index)
        disk.show(state)
        for number, window in enumerate(windows(disk, DISKS)):
            read = window.perform(Request(Operation.READ, 0, DISK_BYTES))
            assert read == image[number * DISK_BYTES : (number + 1) * DISK_BYTES]
        disk.close()


def test_what_was_read_of_either_disk_counts(tmp_path: Path) -> None:
    page = DISK_BYTES // 4096
    with record(tmp_path, W0, W1) as log:
        disk = CrashStateDisk(ImageIndex(log))
        disk.show(CrashState(log.event_count))
        first, second = windows(disk, DISKS)
        second.perform(Request(Operation.READ, 0, SECTOR))
        assert disk.pages_read().tolist() == [page]
        first.perform(Request(Operation.READ, 0, SECTOR))
        assert disk.pages_read().tolist() == [0, page]
        first.perform(Request(Operation.WRITE, 0, SECTOR, False, b"n" * SECTOR))
        assert second.perform(Request(Operation.READ, 0, SECTOR)) == W1.data
        disk.close()


def test_each_disk_has_a_server_and_both_have_one_log(tmp_path: Path) -> None:
    """What one disk has answered is in the log before anything that is sent to the other then."""
    with LogWriter(tmp_path, DISKS * DISK_BYTES, DISKS) as writer:
        disk = RecordingDisk(writer, DISKS * DISK_BYTES)
        servers, clients = [], []
        for window in windows(disk, DISKS):
            ours, theirs = socket_pair()
            servers.append(NbdServer(ours, window))
            servers[-1].start()
            clients.append(NbdClient(theirs))
            clients[-1].enter()
        for turn in range(20):
            client = clients[turn % DISKS]
            client.send(client.write(turn, 0, bytes([turn]) * SECTOR))
            assert client.reply() == (turn, 0, b"")
            client.send(client.request(FLUSH, turn))
            assert client.reply() == (turn, 0, b"")
        for number, client in enumerate(clients):
            client.send(client.request(READ, 1, 0, SECTOR))
            assert client.reply(SECTOR) == (1, 0, bytes([18 + number]) * SECTOR)
            client.connection.close()
        for server in servers:
            server.stop()
            assert server.failure is None
    with Log.open(tmp_path) as log:
        assert log.requests.offset_bytes.tolist() == [0, 0, DISK_BYTES, DISK_BYTES] * 10
        assert (log.requests.completed_at - log.requests.submitted_at == 1).all()


def test_a_slice_has_as_many_disks_as_its_recording(tmp_path: Path) -> None:
    manifest = Manifest(disk_size_bytes=DISKS * DISK_BYTES, disks=DISKS)
    recording = Recording.create(tmp_path / "whole", manifest)
    with recording.writer() as writer:
        for request in (W0, W1, F1):
            writer.complete(writer.submit(request))
    sliced = slice_recording(tmp_path / "whole", 6, tmp_path / "slice")
    with Recording.open(sliced.directory).log() as log:
        assert log.disks == DISKS
        assert durable_positions(log).tolist() == [NEVER, 6, NEVER]


def test_a_log_of_two_disks_is_no_dm_log(tmp_path: Path) -> None:
    target = tmp_path / "exported"
    with record(tmp_path / "log", W1) as log, pytest.raises(UsageError, match="of one"):
        export_dm_log(log, target)
    assert not target.exists()


@pytest.mark.parametrize(
    "astray",
    [
        Request(Operation.WRITE, DISK_BYTES - SECTOR, 2 * SECTOR, False, bytes(2 * SECTOR)),
        Request(Operation.FLUSH, SECTOR),
        Request(Operation.FLUSH, DISKS * DISK_BYTES),
    ],
)
def test_a_request_that_is_of_no_disk_is_neither_written_nor_read(
    tmp_path: Path, astray: Request
) -> None:
    with LogWriter(tmp_path, DISKS * DISK_BYTES, DISKS) as writer:
        with pytest.raises(ValueError, match="does not fit"):
            writer.submit(astray)
        writer.submit(Request(Operation.WRITE, 0, 2 * SECTOR, False, bytes(2 * SECTOR)))
    events = bytearray((tmp_path / EVENTS_NAME).read_bytes())
    record = 32
    events[record + 1] = astray.operation
    events[record + 4 : record + 8] = astray.length_bytes.to_bytes(4, "little")
    events[record + 8 : record + 16] = astray.offset_bytes.to_bytes(8, "little")
    (tmp_path / EVENTS_NAME).write_bytes(events)
    with pytest.raises(LogDamaged, match="outside of the disk"):
        Log.open(tmp_path)

"""A device's latency: which reply is due when, and that nothing else waits for it."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crashsim.disk import nbd_connection
from crashsim.disk.durability import durable_positions
from crashsim.disk.latency import HeldReplies, Latency
from crashsim.disk.log import NEVER, Log
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.nbd import DiskBusy, NbdServer, socket_pair
from crashsim.disk.recording_disk import MemoryDisk, NullDisk, RecordingDisk
from crashsim.disk.request import Operation, Request
from crashsim.disk.server import Disk
from tests.support.nbd_client import DISCONNECT, FLUSH, FUA, READ, NbdClient

SIZE = 1 << 20
LATENCY = Latency(write_seconds=0.001, flush_seconds=0.004)


def write(sector: int, count: int = 1, fua: bool = False) -> Request:
    return Request(Operation.WRITE, sector * 512, count * 512, fua, bytes(count * 512))


def test_what_each_kind_of_request_takes() -> None:
    seconds = [
        LATENCY.seconds(request)
        for request in (
            Request(Operation.READ, 0, 512),
            write(0),
            Request(Operation.TRIM, 0, 512),
            Request(Operation.FLUSH),
            write(0, fua=True),
        )
    ]
    assert seconds == [0, 0.001, 0.001, 0.004, 0.005]


@pytest.mark.parametrize("seconds", [-0.1, 60.0, float("nan")])
def test_impossible_latencies_are_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="no latency"):
        Latency(flush_seconds=seconds)


def test_replies_leave_when_they_are_due_and_else_in_their_order() -> None:
    held: HeldReplies[str] = HeldReplies()
    assert not held
    held.hold(Request(Operation.FLUSH), 4.0, "flush")
    held.hold(write(0), 1.0, "write")
    held.hold(write(8), 1.0, "another")
    assert held.next_due_seconds == 1.0
    assert held.due(0.9) == []
    assert held.due(1.0) == ["write", "another"]
    assert held.due(10.0) == ["flush"]
    assert not held


def test_a_write_does_not_overtake_one_that_it_overlaps() -> None:
    held: HeldReplies[str] = HeldReplies()
    held.hold(write(0, 8, fua=True), 5.0, "forced")
    held.hold(write(7, 2), 1.0, "overlaps it")
    held.hold(write(8, 2), 1.0, "overlaps that")
    held.hold(write(16), 1.0, "elsewhere")
    assert held.due(1.0) == ["elsewhere"]
    assert held.due(5.0) == ["forced", "overlaps it", "overlaps that"]


class Clock:
    """The server's time, which stands still until it is told to go on."""

    def __init__(self) -> None:
        self.now_seconds = 100.0

    def monotonic(self) -> float:
        return self.now_seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(nbd_connection, "time", clock)
    return clock


class Served:
    """A server of a slow disk, with one client."""

    def __init__(self, disk: Disk, latency: Latency = LATENCY) -> None:
        ours, theirs = socket_pair()
        self.server = NbdServer(ours, NullDisk(SIZE))
        self.server.start()
        self.server.replace(disk, latency)
        self.client = NbdClient(theirs)
        self.client.enter()

    def close(self) -> None:
        self.server.stop()
        self.client.connection.close()


@pytest.fixture
def served(clock: Clock) -> Iterator[Served]:
    result = Served(MemoryDisk(SIZE))
    yield result
    result.close()


def test_nothing_waits_for_a_flush_but_its_own_reply(served: Served, clock: Clock) -> None:
    client = served.client
    client.send(client.request(FLUSH, 1), client.write(2, 0, bytes(512)))
    client.send(client.request(READ, 3, 4096, 512))
    assert client.reply(512)[0] == 3
    clock.now_seconds += LATENCY.write_seconds
    assert client.reply()[0] == 2
    client.send(client.request(READ, 4, 0, 512))
    assert client.reply(512)[0] == 4
    clock.now_seconds += LATENCY.flush_seconds
    assert client.reply() == (1, 0, b"")


def test_what_fails_fails_at_once(served: Served) -> None:
    client = served.client
    client.send(client.request(FLUSH, 1), client.write(2, SIZE, bytes(512)))
    assert client.reply()[0] == 2


def test_the_last_replies_come_before_the_end(served: Served, clock: Clock) -> None:
    client = served.client
    client.send(client.write(1, 0, bytes(512)), client.request(READ, 2, 0, 512))
    client.send(client.request(DISCONNECT, 3))
    assert client.reply(512)[0] == 2
    clock.now_seconds += LATENCY.write_seconds
    assert client.reply()[0] == 1
    with pytest.raises(EOFError):
        client.receive(1)
    assert served.server.failure is None


def test_a_held_write_is_in_flight_for_the_log(tmp_path: Path, clock: Clock) -> None:
    """A FLUSH that comes before a write's delayed reply does not cover it."""
    with LogWriter(tmp_path, SIZE) as writer:
        served = Served(RecordingDisk(writer, SIZE))
        client = served.client
        client.send(client.write(1, 0, bytes(512)), client.request(READ, 2, 0, 512))
        assert client.reply(512)[0] == 2
        client.send(client.request(FLUSH, 3), client.request(READ, 4, 0, 512))
        assert client.reply(512)[0] == 4
        clock.now_seconds += 1
        assert [client.reply()[0] for _ in range(2)] == [1, 3]
        client.send(client.write(5, 512, bytes(512), flags=FUA), client.request(READ, 6, 0, 512))
        assert client.reply(512)[0] == 6
        clock.now_seconds += LATENCY.flush_seconds + LATENCY.write_seconds
        assert client.reply()[0] == 5
        served.close()
    with Log.open(tmp_path) as log:
        assert log.requests.operation.tolist() == [1, 4, 1]
        durable = durable_positions(log)
        assert (durable[[0, 1]] == NEVER).all()
        assert durable[2] < NEVER


def test_replacing_waits_for_held_replies(served: Served, clock: Clock) -> None:
    client = served.client
    client.send(client.request(FLUSH, 1), client.request(READ, 2, 0, 512))
    assert client.reply(512)[0] == 2
    with pytest.raises(DiskBusy):
        served.server.replace(NullDisk(SIZE), timeout_seconds=0.01)
    replaced = threading.Thread(target=served.server.replace, args=(NullDisk(SIZE),))
    replaced.start()
    clock.now_seconds += 1
    assert client.reply()[0] == 1
    replaced.join(20)
    assert not replaced.is_alive()
    client.send(client.request(FLUSH, 3))
    assert client.reply()[0] == 3


def test_stopping_does_not_wait_for_held_replies(clock: Clock) -> None:
    served = Served(MemoryDisk(SIZE), Latency(flush_seconds=50.0))
    client = served.client
    client.send(client.request(FLUSH, 1), client.request(READ, 2, 0, 512))
    assert client.reply(512)[0] == 2
    before = threading.active_count()
    served.close()
    assert threading.active_count() == before - 1

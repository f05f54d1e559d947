"""The NBD server, spoken to by a bare client over a socket pair."""

import errno
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from crashsim.disk.durability import durable_positions
from crashsim.disk.log import NEVER, Log, LogWriter, RecordingDiskFull
from crashsim.disk.nbd import DiskBusy, NbdServer, socket_pair
from crashsim.disk.nbd_protocol import NbdProtocolError
from crashsim.disk.recording_disk import MemoryDisk, NullDisk, RecordingDisk
from crashsim.disk.request import Operation, Request
from crashsim.disk.server import Disk
from tests.support.nbd_client import (
    CACHE,
    DISCONNECT,
    FLUSH,
    FUA,
    READ,
    TRIM,
    WRITE,
    WRITE_ZEROES,
    NbdClient,
)

SIZE = 1 << 20
ACK, SERVER, INFO = 1, 2, 3
UNSUPPORTED, INVALID, UNKNOWN = 0x80000001, 0x80000003, 0x80000006


class Served:
    """A server with one client."""

    def __init__(self, disk: Disk) -> None:
        ours, theirs = socket_pair()
        self.server = NbdServer(ours, disk)
        self.server.start()
        self.client = NbdClient(theirs)

    def close(self) -> None:
        self.server.stop()
        self.client.connection.close()


@pytest.fixture
def served() -> Iterator[Served]:
    result = Served(MemoryDisk(SIZE))
    yield result
    result.close()


class ScriptedDisk:
    """A Disk that notes all calls, and lets the test hold or fail a request."""

    size_bytes = SIZE

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.errors: dict[int, Exception] = {}
        self.entered = threading.Event()
        self.go_on = threading.Event()
        self.held_offset = -1
        self._tickets = 0

    def arrived(self, request: Request) -> int:
        self.calls.append(f"arrived {request.operation.name} {request.offset_bytes}")
        self._tickets += 1
        return self._tickets

    def perform(self, request: Request) -> bytes:
        if request.offset_bytes == self.held_offset:
            self.entered.set()
            assert self.go_on.wait(20)
        self.calls.append(f"perform {request.operation.name} {request.offset_bytes}")
        if request.offset_bytes in self.errors:
            raise self.errors[request.offset_bytes]
        return bytes(request.length_bytes) if request.operation is Operation.READ else b""

    def replied(self, ticket: int, error: int) -> None:
        self.calls.append(f"replied {ticket} {error}")


def test_the_export_is_described(served: Served) -> None:
    client = served.client
    assert client.flags == 3
    client.answer_greeting()
    replies = client.go()
    assert [reply.kind for reply in replies] == [INFO, INFO, ACK]
    kind, size, flags = struct.unpack(">HQH", replies[0].data)
    # HAS_FLAGS, SEND_FLUSH, SEND_FUA, SEND_TRIM, SEND_WRITE_ZEROES; and not READ_ONLY.
    assert (kind, size, flags) == (0, SIZE, 1 | 4 | 8 | 32 | 64)
    assert struct.unpack(">HIII", replies[1].data) == (3, 512, 4096, 32 << 20)


def test_options_are_answered_in_any_order(served: Served) -> None:
    client = served.client
    client.answer_greeting()
    for option in (5, 8, 9, 10, 99):
        client.send_option(option, b"x" * 5)
        assert client.option_reply() == (option, UNSUPPORTED, b"")
    client.send_option(3)
    assert client.option_reply() == (3, SERVER, bytes(4))
    assert client.option_reply() == (3, ACK, b"")
    client.send_option(3, b"data")
    assert client.option_reply().kind == INVALID
    assert [reply.kind for reply in client.go(b"other")] == [UNKNOWN]
    for malformed in (b"", b"\0" * 4, b"\0\0\0\x09x\0\0", b"\0" * 4 + b"\0\x02\0\0"):
        client.send_option(7, malformed)
        assert client.option_reply().kind == INVALID
    client.send_option(6, bytes(6))
    assert [client.option_reply().kind for _ in range(3)] == [INFO, INFO, ACK]
    client.send_option(2)
    assert client.option_reply().kind == ACK
    with pytest.raises(EOFError):
        client.receive(1)
    assert served.server.failure is None


@pytest.mark.parametrize(("flags", "padding"), [(3, 0), (1, 124)])
def test_export_name_goes_straight_on(served: Served, flags: int, padding: int) -> None:
    served.client.answer_greeting(flags)
    served.client.send_option(1)
    size, export_flags = struct.unpack(">QH", served.client.receive(10))
    assert (size, export_flags) == (SIZE, 109)
    assert served.client.receive(padding) == bytes(padding)
    served.client.send(served.client.request(FLUSH, 7))
    assert served.client.reply() == (7, 0, b"")


def test_an_unknown_export_name_ends_the_connection(served: Served) -> None:
    served.client.answer_greeting()
    served.client.send_option(1, b"other")
    with pytest.raises(EOFError):
        served.client.receive(1)


@pytest.mark.parametrize(
    "nonsense",
    [
        struct.pack(">I", 0),
        struct.pack(">I", 7),
        struct.pack(">I", 3) + b"NOOPTION" + bytes(8),
        struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 7, 1 << 30),
    ],
)
def test_nonsense_in_the_handshake_ends_the_connection(served: Served, nonsense: bytes) -> None:
    served.client.connection.sendall(nonsense)
    with pytest.raises((EOFError, ConnectionResetError)):
        served.client.receive(1)
    assert isinstance(served.server.failure, NbdProtocolError)


def test_what_is_written_is_read(served: Served) -> None:
    client = served.client
    client.enter()
    client.send(client.write(1, 512, b"abcd" * 256), client.request(READ, 2, 0, 2048))
    assert client.reply() == (1, 0, b"")
    assert client.reply(2048) == (2, 0, bytes(512) + b"abcd" * 256 + bytes(512))
    client.send(
        client.request(TRIM, 3, 512, 512),
        client.request(WRITE_ZEROES, 4, 1024, 512, flags=2),
        client.request(READ, 5, 0, 2048),
    )
    assert client.reply() == (3, 0, b"")
    assert client.reply() == (4, 0, b"")
    assert client.reply(2048) == (5, 0, bytes(2048))
    client.send(client.request(DISCONNECT, 6))
    with pytest.raises(EOFError):
        client.receive(1)
    assert served.server.failure is None


def test_bad_requests_are_refused_and_the_next_one_works(served: Served) -> None:
    client = served.client
    client.enter()
    past_end = SIZE - 512
    client.send(
        client.request(READ, 1, past_end, 1024),
        client.write(2, past_end, bytes(1024)),
        client.request(TRIM, 3, 1 << 63, 512),
        client.request(WRITE_ZEROES, 4, (1 << 64) - 512, 1 << 31),
        client.request(READ, 5, 0, 100),
        client.write(6, 7, bytes(512)),
        client.request(READ, 7, 0, 0),
        client.request(CACHE, 8, 0, 512),
        client.request(77, 9, 0, 512),
        client.request(READ, 10, 0, 512, flags=4),
        client.request(READ, 11, past_end, 512),
    )
    errors = [client.reply()[:2] for _ in range(10)]
    assert errors == [
        (1, errno.EINVAL),
        (2, errno.ENOSPC),
        (3, errno.ENOSPC),
        (4, errno.ENOSPC),
        (5, errno.EINVAL),
        (6, errno.EINVAL),
        (7, errno.EINVAL),
        (8, errno.EINVAL),
        (9, errno.EINVAL),
        (10, errno.EINVAL),
    ]
    assert client.reply(512) == (11, 0, bytes(512))


def test_a_read_that_is_too_long_is_refused() -> None:
    served = Served(NullDisk(1 << 30))
    served.client.enter()
    served.client.send(served.client.request(READ, 1, 0, (32 << 20) + 512))
    assert served.client.reply() == (1, errno.EOVERFLOW, b"")
    served.close()


@pytest.mark.parametrize(
    "nonsense",
    [b"x" * 28, struct.pack(">IHHQQI", 0x25609513, 0, WRITE, 1, 0, (32 << 20) + 1)],
)
def test_nonsense_in_transmission_ends_the_connection(served: Served, nonsense: bytes) -> None:
    served.client.enter()
    served.client.send(nonsense)
    with pytest.raises((EOFError, ConnectionResetError)):
        served.client.receive(1)
    assert isinstance(served.server.failure, NbdProtocolError)


def test_requests_in_one_batch_arrive_before_any_is_answered() -> None:
    disk = ScriptedDisk()
    served = Served(disk)
    served.client.enter()
    served.client.send(
        served.client.write(1, 0, bytes(512)),
        served.client.request(FLUSH, 2),
        served.client.write(3, 512, bytes(512)),
    )
    assert [served.client.reply()[0] for _ in range(3)] == [1, 2, 3]
    assert disk.calls == [
        "arrived WRITE 0",
        "arrived FLUSH 0",
        "arrived WRITE 512",
        "perform WRITE 0",
        "replied 1 0",
        "perform FLUSH 0",
        "replied 2 0",
        "perform WRITE 512",
        "replied 3 0",
    ]
    served.close()


def test_reads_that_lie_together_are_answered_together_and_writes_are_not() -> None:
    disk = ScriptedDisk()
    disk.errors = {512: OSError(errno.EIO, "unreadable")}
    served = Served(disk)
    client = served.client
    client.enter()
    client.send(
        *(client.request(READ, 1 + number, 512 * number, 512) for number in range(3)),
        client.write(4, 4096, bytes(512)),
        client.request(READ, 5, 8192, 512),
    )
    assert [client.reply(0 if number == 3 else 512)[:2] for number in range(5)] == [
        (1, 0),
        (2, errno.EIO),
        (3, 0),
        (4, 0),
        (5, 0),
    ]
    assert disk.calls[5:] == [
        *("perform READ 0", "perform READ 512", "perform READ 1024"),
        *("replied 1 0", f"replied 2 {errno.EIO}", "replied 3 0"),
        *("perform WRITE 4096", "replied 4 0"),
        *("perform READ 8192", "replied 5 0"),
    ]
    served.close()


def test_more_reads_at_once_than_one_system_call_can_answer(served: Served) -> None:
    client = served.client
    client.enter()
    content = b"".join(number.to_bytes(2, "big") * 256 for number in range(SIZE // 512))
    client.send(client.write(0, 0, content))
    client.reply()
    count = SIZE // 512  # each gives two buffers; sendmsg(2) takes 1024
    client.send(*(client.request(READ, number, 512 * number, 512) for number in range(count)))
    for number in range(count):
        assert client.reply(512) == (number, 0, content[512 * number : 512 * number + 512])


def test_a_flush_that_comes_while_a_write_is_performed_arrives_before_its_end() -> None:
    disk = ScriptedDisk()
    disk.held_offset = 4096
    served = Served(disk)
    served.client.enter()
    served.client.send(served.client.write(1, 4096, bytes(512)))
    assert disk.entered.wait(20)
    served.client.send(served.client.request(FLUSH, 2))
    disk.go_on.set()
    assert [served.client.reply()[0] for _ in range(2)] == [1, 2]
    assert disk.calls[:4] == [
        "arrived WRITE 4096",
        "perform WRITE 4096",
        "arrived FLUSH 0",
        "replied 1 0",
    ]
    served.close()


def test_a_write_in_flight_at_a_flush_is_not_covered_by_it(tmp_path: Path) -> None:
    with LogWriter(tmp_path, SIZE) as writer:
        served = Served(RecordingDisk(writer, SIZE))
        client = served.client
        client.enter()
        client.send(client.write(1, 0, b"1" * 512), client.request(FLUSH, 2))
        client.send(client.write(3, 512, b"3" * 512, flags=FUA))
        for _ in range(3):
            client.reply()
        first = writer.mark("all three were answered")
        client.send(client.request(FLUSH, 4))
        client.reply()
        second = writer.mark("and now the second flush")
        served.close()
    with Log.open(tmp_path) as log:
        assert log.requests.operation.tolist() == [1, 4, 1, 4]
        durable = durable_positions(log)
        assert first < durable[0] <= second
        assert durable[2] <= first
        assert (durable[[1, 3]] == NEVER).all()


def test_a_large_request_comes_in_pieces(tmp_path: Path) -> None:
    size = 64 << 20
    with LogWriter(tmp_path, size) as writer:
        served = Served(RecordingDisk(writer, size))
        client = served.client
        client.enter()
        data = bytes(range(256)) * (1 << 17)
        client.send(client.write(1, 0, data), client.write(2, 32 << 20, data), b"")
        assert client.reply() == (1, 0, b"")
        assert client.reply() == (2, 0, b"")
        client.send(client.request(READ, 3, 16 << 20, 32 << 20))
        assert client.reply(32 << 20) == (3, 0, data)
        served.close()


def test_errors_of_the_disk_reach_the_client() -> None:
    disk = ScriptedDisk()
    disk.errors = {
        0: OSError(errno.ENOSPC, "no space"),
        512: OSError(errno.EREMOTEIO, "an errno that NBD does not have"),
        1024: OSError("no errno at all"),
    }
    served = Served(disk)
    served.client.enter()
    for cookie, offset in enumerate(disk.errors):
        served.client.send(served.client.request(READ, cookie, offset, 512))
    replies = [served.client.reply(512)[:2] for _ in range(3)]
    assert replies == [(0, errno.ENOSPC), (1, errno.EIO), (2, errno.EIO)]
    ends = [call for call in disk.calls if call.startswith("replied")]
    assert ends == [f"replied 1 {errno.ENOSPC}", f"replied 2 {errno.EREMOTEIO}", "replied 3 5"]
    assert served.server.failure is None
    served.close()


def test_a_full_recording_ends_the_connection_and_is_remembered() -> None:
    disk = ScriptedDisk()
    disk.errors = {0: RecordingDiskFull("no room left")}
    served = Served(disk)
    served.client.enter()
    served.client.send(served.client.write(1, 0, bytes(512)))
    with pytest.raises((EOFError, ConnectionResetError)):
        served.client.reply()
    assert isinstance(served.server.failure, RecordingDiskFull)
    served.close()


def test_a_client_that_is_killed_is_no_failure(served: Served) -> None:
    served.client.enter()
    served.client.send(served.client.write(1, 0, bytes(512))[:-100])
    served.client.connection.close()
    served.server.stop()
    assert served.server.failure is None


def test_replacing_waits_for_what_is_in_flight() -> None:
    first, second = ScriptedDisk(), ScriptedDisk()
    first.held_offset = 0
    served = Served(first)
    served.client.enter()
    served.client.send(served.client.request(READ, 1, 0, 512))
    assert first.entered.wait(20)
    with pytest.raises(DiskBusy):
        served.server.replace(second, timeout_seconds=0.01)
    replaced = threading.Thread(target=served.server.replace, args=(second,))
    replaced.start()
    first.go_on.set()
    replaced.join(20)
    assert not replaced.is_alive()
    assert served.client.reply(512)[:2] == (1, 0)
    served.client.send(served.client.request(READ, 2, 512, 512))
    assert served.client.reply(512)[:2] == (2, 0)
    assert first.calls[-1] == "replied 1 0"
    assert second.calls == ["arrived READ 512", "perform READ 512", "replied 1 0"]
    with pytest.raises(ValueError, match="another size"):
        served.server.replace(NullDisk(SIZE * 2))
    served.close()


def test_stopping_ends_the_threads_and_closes_the_socket(served: Served) -> None:
    served.client.enter()
    before = threading.active_count()
    served.server.stop()
    served.server.stop()
    assert threading.active_count() == before - 1
    with pytest.raises((EOFError, ConnectionResetError)):
        served.client.receive(1)


def test_stopping_does_not_wait_for_a_client_that_reads_nothing() -> None:
    served = Served(NullDisk(1 << 30))
    served.client.enter()
    reads = [served.client.request(READ, cookie, 0, 32 << 20) for cookie in range(8)]
    served.client.send(*reads)
    assert served.client.connection.recv(1, socket.MSG_PEEK)
    served.server.stop()
    served.close()

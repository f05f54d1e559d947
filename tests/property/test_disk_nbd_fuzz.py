"""Whatever a client sends, the server answers, refuses or hangs up: it never falls over."""

import socket
import struct

from hypothesis import event, given, settings
from hypothesis import strategies as st

from crashsim.disk.nbd import NbdServer, socket_pair
from crashsim.disk.nbd_protocol import NbdProtocolError
from crashsim.disk.recording_disk import MemoryDisk
from tests.support.nbd_client import NbdClient

SIZE = 1 << 16

numbers = st.one_of(
    st.integers(0, 16), st.sampled_from([512, 4096, SIZE - 512, SIZE, (1 << 32) - 512, 1 << 25])
)
offsets = st.one_of(numbers, st.sampled_from([(1 << 64) - 512, 1 << 63, (1 << 64) - 1]))
well_formed = st.builds(
    lambda flags, kind, offset, length, has_data: (
        struct.pack(">IHHQQI", 0x25609513, flags, kind, 1, offset, length)
        + bytes(length if has_data and kind == 1 and length <= SIZE else 0)
    ),
    st.integers(0, 7),
    st.integers(0, 9),
    offsets,
    numbers,
    st.booleans(),
)
options = st.builds(
    lambda option, data, extra: b"IHAVEOPT" + struct.pack(">II", option, len(data) + extra) + data,
    st.integers(0, 10),
    st.one_of(st.binary(max_size=12), st.just(bytes(6))),
    st.sampled_from([0, 0, 0, 1, 1 << 20, (1 << 32) - 100]),
)


@settings(deadline=None)
@given(
    st.sampled_from([0, 1, 3, 3, 3, 3, 4, (1 << 32) - 1]),
    st.lists(options, max_size=4),
    st.booleans(),
    st.lists(st.one_of(well_formed, well_formed, st.binary(max_size=40)), max_size=8),
)
def test_no_client_breaks_the_server(
    flags: int, asked: list[bytes], goes_on: bool, requests: list[bytes]
) -> None:
    ours, theirs = socket_pair()
    disk = MemoryDisk(SIZE)
    server = NbdServer(ours, disk)
    server.start()
    client = NbdClient(theirs)
    go = b"IHAVEOPT" + struct.pack(">II", 7, 6) + bytes(6) if goes_on else b""
    try:
        theirs.sendall(struct.pack(">I", flags) + b"".join(asked) + go + b"".join(requests))
        theirs.shutdown(socket.SHUT_WR)
        answered = _drain(client)
    except ConnectionError:
        answered = -1
    server.stop()
    theirs.close()
    disk.close()
    event(f"failure: {type(server.failure).__name__}, answers: {answered > 100}")
    assert server.failure is None or isinstance(server.failure, NbdProtocolError)


def _drain(client: NbdClient) -> int:
    """Read until the server hangs up."""
    total = 0
    while part := client.connection.recv(1 << 16):
        total += len(part)
    return total

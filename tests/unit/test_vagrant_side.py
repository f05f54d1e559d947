"""What runs in the Vagrant VM, as far as it runs anywhere: NBD's handshake, the log, the files."""

import io
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from crashsim.disk.dm_log_export import export_dm_log
from crashsim.disk.dm_log_writes import MARK_BYTES, import_dm_log, mark_pieces
from crashsim.disk.log import Log
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.nbd import NbdServer, socket_pair
from crashsim.disk.nbd_protocol import EXPORT_FLAGS
from crashsim.disk.recording_disk import NullDisk
from crashsim.disk.request import Operation, Request
from crashsim.faults.dm.targets import LogWrites
from crashsim.machines.vagrant_side.disks import RecordingLost, log_length_bytes
from crashsim.machines.vagrant_side.nbd_client import NoDisk, handshake
from crashsim.machines.vagrant_side.spare import LOG_MAGIC, may_be_overwritten
from crashsim.machines.vagrant_side.staging import guest_files

SIZE_BYTES = 1 << 20


def test_its_handshake_is_that_of_our_server() -> None:
    ours, theirs = socket_pair()
    server = NbdServer(ours, NullDisk(SIZE_BYTES))
    server.start()
    try:
        assert handshake(theirs) == (SIZE_BYTES, EXPORT_FLAGS)
    finally:
        theirs.close()
        server.stop()


@pytest.mark.parametrize("greeting", [b"", b"HTTP/1.1 400 Bad Request", b"NBDMAGIC" + bytes(10)])
def test_another_server_is_no_disk(greeting: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(greeting)
        ours.shutdown(socket.SHUT_WR)
        with pytest.raises(NoDisk):
            handshake(theirs)


def exported(directory: Path) -> Path:
    """A log in the kernel's format with a write, a discard, a flush and marks."""
    with LogWriter(directory / "ours", SIZE_BYTES) as writer:
        write = Request(Operation.WRITE, 4096, 8192, data=b"w" * 8192)
        for request in (write, Request(Operation.FLUSH), Request(Operation.TRIM, 0, 65536)):
            writer.complete(writer.submit(request))
        writer.mark("a promise")
    with Log.open(directory / "ours") as log:
        export_dm_log(log, directory / "kernel.log")
    return directory / "kernel.log"


def test_the_length_of_a_log_is_where_its_last_entry_ends(tmp_path: Path) -> None:
    path = exported(tmp_path)
    content = path.read_bytes()

    assert log_length_bytes(io.BytesIO(content + bytes(100_000))) == len(content)


def test_a_disk_without_a_log_has_lost_it() -> None:
    with pytest.raises(RecordingLost):
        log_length_bytes(io.BytesIO(bytes(4096)))


def test_the_kernels_own_last_mark_is_nobodys_promise(tmp_path: Path) -> None:
    def marks(texts: list[str]) -> list[str]:
        place = tmp_path / "-".join(texts)
        with LogWriter(place / "ours", SIZE_BYTES) as writer:
            for text in texts:
                writer.mark(text)
        with Log.open(place / "ours") as log:
            export_dm_log(log, place / "kernel.log")
        import_dm_log(place / "kernel.log", place / "imported", SIZE_BYTES)
        with Log.open(place / "imported") as log:
            return [mark.text for mark in log.marks]

    end = "dm-log-writes-end"
    assert marks(["1", end]) == ["1"]
    assert marks(["1", end, "2"]) == ["1", end, "2"]  # a program that says the same


@pytest.mark.parametrize(
    "text",
    [
        "short",
        "x" * MARK_BYTES,
        "x" * (MARK_BYTES + 1),
        "ü" * 1000,
        "x€" * 1000,
        "\U0001f4a5" * 500,
        "crashsim-part: a promise that begins so",
    ],
)
def test_long_marks_are_cut_between_characters(text: str) -> None:
    pieces = mark_pieces(text.encode())

    for piece in pieces:
        LogWrites.mark(piece.decode())  # raises for one that the kernel would cut
    joined = b"".join(piece.removeprefix(b"crashsim-part:") for piece in pieces)
    assert joined.decode() == text


def test_what_is_no_text_at_all_comes_to_an_end() -> None:
    assert b"".join(
        piece.removeprefix(b"crashsim-part:") for piece in mark_pieces(b"\x80" * 5000)
    ) == (b"\x80" * 5000)


@pytest.mark.parametrize(
    ("start", "may"),
    [
        (bytes(65536), True),
        (LOG_MAGIC + b"anything", True),
        (bytes(510) + b"\x55\xaa", False),
        (bytes(1080) + b"\x53\xef", False),
    ],
)
def test_only_a_blank_disk_or_one_of_ours_is_overwritten(
    tmp_path: Path, start: bytes, may: bool
) -> None:
    (tmp_path / "disk").write_bytes(start)

    assert may_be_overwritten(str(tmp_path / "disk")) is may


def test_its_files_need_nothing_but_python(tmp_path: Path) -> None:
    for path, content in guest_files().items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(content)
    code = (
        "import crashsim.machines.vagrant_side.main as main, sys; "
        "import crashsim.machines.vagrant_side.room; print(main.__file__)"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-S",
            "-I",
            "-c",
            f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {code}",
        ],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(tmp_path))


def test_orders_that_make_no_sense_are_refused_and_the_next_one_is_served() -> None:
    """Without a guest: `hello` is the only order that needs none."""
    import json

    from crashsim.machines.vagrant_side.main import serve

    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.sendall(
            b"nonsense\n"
            b'{"id": 1, "op": "record", "arguments": {"slot": 7}}\n'
            b'{"id": 2, "op": "explode", "arguments": {}}\n'
            b'{"id": 3, "op": "mark", "arguments": {"slot": 0, "text": 5}}\n'
            b'{"id": 4, "op": "hello", "arguments": {}}\n'
        )
        ours.shutdown(socket.SHUT_WR)
        thread = threading.Thread(target=serve, args=(None, theirs.fileno(), theirs.fileno()))
        thread.start()
        thread.join(30)
        theirs.shutdown(socket.SHUT_WR)
        answers = [json.loads(line) for line in ours.makefile("rb")]

    assert [answer["id"] for answer in answers] == [0, 1, 2, 3, 4]
    assert ["error" in answer for answer in answers] == [True, True, True, True, False]

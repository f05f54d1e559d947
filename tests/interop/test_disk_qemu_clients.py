"""QEMU's own NBD client against the crash disk: qemu-img, qemu-io and qemu-nbd's listing."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from crashsim.disk.crash_disk import CrashStateDisk
from crashsim.disk.durability import durable_positions
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import NEVER, Log, LogWriter
from crashsim.disk.nbd import NbdServer, listen
from crashsim.disk.recording_disk import RecordingDisk
from crashsim.disk.request import Operation
from crashsim.disk.state import CrashState

SIZE = 64 << 20

pytestmark = pytest.mark.skipif(shutil.which("qemu-io") is None, reason="needs qemu-utils")


class Recorder:
    """A recording disk on a unix socket."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "log"
        self.socket = directory / "nbd.sock"
        self.writer = LogWriter(self.log, SIZE)
        self.disk = RecordingDisk(self.writer, SIZE)
        self.server = NbdServer(listen(str(self.socket)), self.disk)
        self.server.start()
        self.uri = f"nbd+unix:///?socket={self.socket}"

    def stop(self) -> None:
        self.server.stop()
        assert self.server.failure is None
        self.disk.close()
        self.writer.close()


@pytest.fixture
def recorder(tmp_path: Path) -> Iterator[Recorder]:
    result = Recorder(tmp_path)
    yield result
    result.stop()


def run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def qemu_io(uri: str, *commands: str) -> str:
    arguments = [part for command in commands for part in ("-c", command)]
    output = run("qemu-io", "-f", "raw", "-t", "none", *arguments, uri)
    assert "failed" not in output
    assert "error" not in output
    return output


def test_the_export_is_listed_and_sized(recorder: Recorder) -> None:
    information = json.loads(run("qemu-img", "info", "--output=json", recorder.uri))
    assert information["virtual-size"] == SIZE
    listing = run("qemu-nbd", "--list", "-k", str(recorder.socket))
    assert "size:  67108864" in listing
    assert all(flag in listing for flag in ("flush", "fua", "trim", "zeroes"))
    assert "readonly" not in listing
    assert "min block: 512" in listing


def test_every_kind_of_request_gets_into_the_log(recorder: Recorder) -> None:
    qemu_io(
        recorder.uri,
        "write -P 1 0 8k",
        "write -P 2 -f 512 1k",
        "flush",
        "write -z 64k 4k",
        "discard 128k 4k",
        "read -P 1 0 512",
        "read -P 2 512 1k",
        "read -P 1 1536 6656",
        "read -P 0 8k 1M",
    )
    recorder.stop()
    with Log.open(recorder.log) as log:
        requests = log.requests
        described = [
            (Operation(int(requests.operation[number])).name, int(requests.offset_bytes[number]))
            for number in range(len(requests))
            if requests.operation[number] != Operation.FLUSH
        ]
        assert described == [
            ("WRITE", 0),
            ("WRITE", 512),
            ("WRITE_ZEROES", 64 << 10),
            ("TRIM", 128 << 10),
        ]
        writes = np.flatnonzero(requests.changes_media)
        assert requests.fua[writes].tolist() == [False, True, False, False]
        assert (requests.completed_at != NEVER).all()
        flushed = requests.completed_at[requests.operation == Operation.FLUSH][0]
        durable = durable_positions(log)[writes]
        assert durable[0] == flushed + 1
        assert durable[1] == requests.completed_at[writes[1]] + 1


def test_an_image_goes_in_and_comes_out_by_qemu_img(recorder: Recorder, tmp_path: Path) -> None:
    source = tmp_path / "source.img"
    chooser = np.random.default_rng(5)
    with source.open("wb") as file:
        file.truncate(SIZE)
        for offset in (0, 5 << 20, 33 << 20):
            file.seek(offset)
            file.write(chooser.bytes(3 << 20))
    run("qemu-img", "convert", "-n", "-f", "raw", "-O", "raw", str(source), recorder.uri)
    run("qemu-img", "compare", "-f", "raw", "-F", "raw", str(source), recorder.uri)
    recorder.stop()
    with Log.open(recorder.log) as log:
        index = ImageIndex(log)
        end = CrashState(log.event_count)
        assert index.read(end, 0, SIZE) == source.read_bytes()
        assert _served(index, end, tmp_path / "copy.img") == source.read_bytes()
        nothing = CrashState(0)
        assert _served(index, nothing, tmp_path / "nothing.img") == bytes(SIZE)


def test_parallel_synchronous_writes_are_all_recorded(recorder: Recorder) -> None:
    run(
        *("qemu-img", "bench", "-w", "-t", "none", "-f", "raw", "-c", "2000", "-d", "16"),
        *("-s", "4096", "--flush-interval=16", "--pattern=7", recorder.uri),
    )
    recorder.stop()
    with Log.open(recorder.log) as log:
        writes = np.flatnonzero(log.requests.operation == Operation.WRITE)
        assert len(writes) == 2000
        assert (log.requests.completed_at != NEVER).all()
        assert all(log.payload(int(number)) == b"\7" * 4096 for number in writes)


def _served(index: ImageIndex, state: CrashState, copy: Path) -> bytes:
    """A crash state as QEMU's client copies it off the server."""
    disk = CrashStateDisk(index)
    disk.show(state)
    socket_path = copy.with_suffix(".sock")
    server = NbdServer(listen(str(socket_path)), disk)
    server.start()
    uri = f"nbd+unix:///?socket={socket_path}"
    run("qemu-img", "convert", "-f", "raw", "-O", "raw", uri, str(copy))
    server.stop()
    disk.close()
    assert server.failure is None
    return copy.read_bytes()

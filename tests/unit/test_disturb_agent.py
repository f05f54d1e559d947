"""The agent's side of disturbances, with real processes and files of this host."""

import errno
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from crashsim.faults.disturbances import DISTURBANCE_DIRECTORY, IN_GUEST, Kind, make
from crashsim.machines.agent import disturb


@pytest.fixture(autouse=True)
def _none_left() -> Iterator[None]:
    yield
    disturb.stop_all()


def start(kind: Kind, root: Path, **parameters: Any) -> int:
    (disturbance,) = make([kind], 1)
    specification = disturbance.specification(str(root))
    specification |= {"pause_ms_min": 0, "pause_ms_max": 1, **parameters}
    return disturb.start(specification)


def wait_until(holds: Callable[[], bool]) -> None:
    """Spin until something another process does has happened; pytest's timeout is the limit."""
    while not holds():
        os.sched_yield()


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_fsync_goes_on_appending_and_starts_anew_when_full(tmp_path: Path) -> None:
    log = tmp_path / DISTURBANCE_DIRECTORY / "log"
    start(Kind.FSYNC, tmp_path, append_bytes=100, file_bytes_max=300)

    wait_until(lambda: size(log) == 300)
    wait_until(lambda: size(log) < 300)


def test_fsync_replaces_a_file_of_its_own_too(tmp_path: Path) -> None:
    state = tmp_path / DISTURBANCE_DIRECTORY / "state"
    start(Kind.FSYNC, tmp_path, append_bytes=100, replace_percent=50)

    wait_until(lambda: size(state) == 100)
    first = state.stat().st_ino
    wait_until(lambda: state.stat().st_ino != first)


def test_a_full_disk_ends_no_disturbance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)  # the forked child has it, too
    log = tmp_path / DISTURBANCE_DIRECTORY / "log"
    start(Kind.FSYNC, tmp_path, append_bytes=100, replace_percent=0)
    monkeypatch.undo()

    wait_until(lambda: size(log) >= 300)


def test_writer_streams_up_to_its_limit_and_lives_on(tmp_path: Path) -> None:
    stream = tmp_path / DISTURBANCE_DIRECTORY / "stream"
    process = start(Kind.WRITER, tmp_path, chunk_bytes=1000, total_bytes_max=10_000)

    wait_until(lambda: size(stream) == 10_000)
    os.kill(process, 0)
    assert disturb.stop_all() == 1


def test_writeback_leaves_files_and_names_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "empty").mkdir()
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    process = start(Kind.WRITEBACK, tmp_path)

    wait_until(lambda: _voluntary_switches(process) > 20)
    assert disturb.stop_all() == 1
    assert (tmp_path / "file").read_bytes() == b"content"
    assert sorted(os.listdir(tmp_path)) == [
        DISTURBANCE_DIRECTORY,
        "dangling",
        "empty",
        "file",
        "pipe",
    ]


def _voluntary_switches(process: int) -> int:
    """How often a process went to sleep: each of its rounds ends with that."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("voluntary_ctxt_switches"):
            return int(line.split()[1])
    raise AssertionError("the kernel does not count context switches")


@pytest.mark.parametrize("kind", sorted(IN_GUEST))
def test_a_disturbance_keeps_none_of_the_agents_descriptors(kind: Kind, tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.set_inheritable(writer, True)
    start(kind, tmp_path)
    os.close(writer)

    assert os.read(reader, 1) == b""  # ends only when no process has the other end any more
    os.close(reader)


def test_stopping_reaps_and_may_be_repeated(tmp_path: Path) -> None:
    processes = [start(kind, tmp_path) for kind in sorted(IN_GUEST)]
    assert all(disturb.owns(process) for process in processes)

    assert disturb.stop_all() == len(processes)
    assert disturb.stop_all() == 0
    for process in processes:
        assert not disturb.owns(process)
        with pytest.raises(ProcessLookupError):
            os.kill(process, 0)


def test_one_that_failed_is_told_with_its_errno_and_the_others_are_gone(tmp_path: Path) -> None:
    (tmp_path / DISTURBANCE_DIRECTORY).mkdir()
    (tmp_path / DISTURBANCE_DIRECTORY / "log").mkdir()
    failing = start(Kind.FSYNC, tmp_path)
    other = start(Kind.WRITER, tmp_path)
    os.waitid(os.P_PID, failing, os.WEXITED | os.WNOWAIT)

    with pytest.raises(disturb.DisturbanceFailed, match=f"fsync.*{errno.errorcode[errno.EISDIR]}"):
        disturb.stop_all()
    with pytest.raises(ProcessLookupError):
        os.kill(other, 0)


def test_one_that_was_killed_by_another_hand_is_told(tmp_path: Path) -> None:
    process = start(Kind.WRITER, tmp_path)
    os.kill(process, signal.SIGTERM)
    os.waitid(os.P_PID, process, os.WEXITED | os.WNOWAIT)

    with pytest.raises(disturb.DisturbanceFailed, match="writer"):
        disturb.stop_all()


def test_an_unknown_kind_starts_nothing(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="earthquake"):
        disturb.start({"kind": "earthquake", "root": str(tmp_path), "directory": "d", "seed": 1})
    assert not (tmp_path / "d").exists()

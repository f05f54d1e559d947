"""The data of disturbances is known in advance: held against what the agent's own code writes."""

import random
import signal
import time
from pathlib import Path

import pytest

from crashsim.disk.request import PAGE_BYTES
from crashsim.explain.unrelated import NOTHING, UnrelatedData
from crashsim.faults.disturbances import Disturbance, Kind, make
from crashsim.machines.agent import disturb


class Stopped(Exception):
    """Ends a disturbance, which never ends by itself."""


def run_disturbance(
    disturbance: Disturbance, directory: Path, pauses: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the agent's code in this process until it has paused so many times."""
    left = iter(range(pauses))

    def pause(*_: object) -> None:
        if next(left, None) is None:
            raise Stopped

    monkeypatch.setattr(time, "sleep", pause)
    monkeypatch.setattr(signal, "pause", pause)
    specification = disturbance.specification(str(directory))
    chooser = random.Random(disturbance.seed)
    with pytest.raises(Stopped):
        disturb._KINDS[disturbance.kind](str(directory), chooser, specification)


def test_every_append_of_the_fsyncing_process_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (disturbance,) = make([Kind.FSYNC], seed=11)
    unrelated = UnrelatedData([disturbance])
    # More than the file holds before it starts anew.
    pauses = 150

    run_disturbance(disturbance, tmp_path, pauses, monkeypatch)

    appends = (tmp_path / "log").read_bytes()
    size = disturbance.parameters["append_bytes"]
    assert 0 < len(appends) <= disturbance.parameters["file_bytes_max"]
    for at in range(0, len(appends), size):
        assert unrelated.has_fsynced(appends[at : at + size], anywhere=False)
    assert unrelated.name(appends[:PAGE_BYTES]) == "data of an unrelated process that fsyncs it"


def test_an_append_is_found_anywhere_inside_a_tree_block(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (disturbance,) = make([Kind.FSYNC], seed=12)
    unrelated = UnrelatedData([disturbance])
    run_disturbance(disturbance, tmp_path, 3, monkeypatch)
    third = (tmp_path / "log").read_bytes()[1024:1536]
    block = b"header".ljust(777, b"-") + third + bytes(100)

    assert unrelated.has_fsynced(block, anywhere=True)
    assert not unrelated.has_fsynced(block, anywhere=False)


def test_every_page_of_the_stream_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (disturbance,) = make([Kind.WRITER], seed=13)
    unrelated = UnrelatedData([disturbance])

    run_disturbance(disturbance, tmp_path, 5, monkeypatch)

    stream = (tmp_path / "stream").read_bytes()
    assert len(stream) == 6 * disturbance.parameters["chunk_bytes"]
    for at in range(0, len(stream), PAGE_BYTES):
        page = stream[at : at + PAGE_BYTES]
        assert unrelated.name(page) == "data of an unrelated process that streams"
        assert not unrelated.has_fsynced(page, anywhere=True)


def test_other_data_is_nobodys() -> None:
    unrelated = UnrelatedData(make([Kind.FSYNC, Kind.WRITER], seed=14))

    assert unrelated.name(b"a program's own page".ljust(PAGE_BYTES, b"\0")) == ""
    assert unrelated.name(bytes(PAGE_BYTES)) == ""
    assert not NOTHING.fsyncs

"""Boot snapshots in the cache: published whole, made once, and not too many of them."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crashsim.errors import InfrastructureError
from crashsim.machines.snapshot import (
    KEPT_MAX,
    Snapshot,
    discard,
    find_snapshot,
    making,
    snapshot_key,
)


def fill(snapshot: Snapshot, memory: bytes = b"memory") -> None:
    snapshot.memory.write_bytes(memory.ljust(-(-len(memory) // 4096) * 4096, b"\0"))
    snapshot.devices.write_bytes(b"devices")


def make(parent: Path, key: str, memory: bytes = b"memory") -> Snapshot:
    with making(parent, key) as snapshot:
        assert snapshot is not None
        fill(snapshot, memory)
    found = find_snapshot(parent, key)
    assert found is not None
    return found


def test_keys_differ_where_anything_differs() -> None:
    keys = [
        snapshot_key(["a", "b"]),
        snapshot_key(["ab"]),
        snapshot_key(["a", "b", ""]),
        snapshot_key(["b", "a"]),
        snapshot_key([]),
    ]

    assert len(set(keys)) == len(keys)
    assert snapshot_key(["a", b"b"]) == keys[0]


def test_a_snapshot_is_found_once_it_is_whole(tmp_path: Path) -> None:
    parent = tmp_path / "snapshots"
    with making(parent, "key") as snapshot:
        assert snapshot is not None
        fill(snapshot)
        assert find_snapshot(parent, "key") is None

    found = find_snapshot(parent, "key")
    assert found is not None
    assert found.devices.read_bytes() == b"devices"
    assert sorted(path.name for path in parent.iterdir()) == [".lock", "key"]


def test_memory_keeps_its_content_without_its_zeroes(tmp_path: Path) -> None:
    page = b"\1" * 4096
    memory = bytes(1 << 20) + page + bytes(9 << 20) + page + bytes(1 << 20)

    snapshot = make(tmp_path, "key", memory)

    assert snapshot.memory.read_bytes() == memory
    assert snapshot.memory.stat().st_blocks * 512 < 1 << 20


def test_a_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with making(tmp_path, "key") as snapshot:
            assert snapshot is not None
            fill(snapshot)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".making-killed").mkdir()
    (tmp_path / ".making-killed" / "memory").write_bytes(b"half")

    make(tmp_path, "key")

    assert not (tmp_path / ".making-killed").exists()


def test_whoever_waited_for_its_turn_finds_the_snapshot_made(tmp_path: Path) -> None:
    inside, go_on = threading.Event(), threading.Event()

    def first() -> None:
        with making(tmp_path, "key") as snapshot:
            inside.set()
            assert go_on.wait(20)
            assert snapshot is not None
            fill(snapshot)

    def second() -> Snapshot | None:
        assert inside.wait(20)
        go_on.set()
        with making(tmp_path, "key") as snapshot:
            return snapshot

    with ThreadPoolExecutor(2) as threads:
        made, waited = threads.submit(first), threads.submit(second)
        made.result(20)
        assert waited.result(20) is None


def test_the_snapshots_used_last_are_kept(tmp_path: Path) -> None:
    for number in range(KEPT_MAX):
        snapshot = make(tmp_path, f"{number}")
        os.utime(snapshot.directory, (number, number))
    assert find_snapshot(tmp_path, "0") is not None  # used just now

    make(tmp_path, "another")

    kept = {path.name for path in tmp_path.iterdir() if path.is_dir()}
    assert kept == {"another", "0", *(str(number) for number in range(2, KEPT_MAX))}


def test_discarding_is_final_and_can_be_repeated(tmp_path: Path) -> None:
    make(tmp_path, "key")
    discard(tmp_path, "key")
    discard(tmp_path, "key")

    assert find_snapshot(tmp_path, "key") is None


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with (
        pytest.raises(InfrastructureError, match="CRASHSIM_CACHE_DIR"),
        making(tmp_path / "file" / "snapshots", "key"),
    ):
        pass

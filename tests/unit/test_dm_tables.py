"""Tables and targets: what they look like, and what no kernel would take."""

import ast
import sys
from collections.abc import Callable

import pytest

from crashsim.faults.dm.errors import BadTable
from crashsim.faults.dm.flakey import CorruptByte, Direction, Flakey
from crashsim.faults.dm.snapshots import Snapshot, SnapshotOrigin, SnapshotStatus
from crashsim.faults.dm.staging import guest_files
from crashsim.faults.dm.tables import Segment, Target, check_name, rows_of, whole
from crashsim.faults.dm.targets import Delay, Dust, Error, Latency, Linear, LogWrites, Zero

FAST, SLOW = Latency("/dev/a", 0, 0), Latency("254:16", 8, 500)


@pytest.mark.parametrize(
    ("target", "kind", "arguments"),
    [
        (Linear("/dev/vdb", 8), "linear", "/dev/vdb 8"),
        (Linear("/dev/a b\\c"), "linear", "/dev/a\\ b\\\\c 0"),
        (Zero(), "zero", ""),
        (Error(), "error", ""),
        (Delay(FAST), "delay", "/dev/a 0 0"),
        (Delay(FAST, SLOW), "delay", "/dev/a 0 0 254:16 8 500"),
        (Delay(FAST, FAST, SLOW), "delay", "/dev/a 0 0 /dev/a 0 0 254:16 8 500"),
        (LogWrites("/dev/a", "/dev/b"), "log-writes", "/dev/a /dev/b"),
        (Dust("/dev/a", 8, 4096), "dust", "/dev/a 8 4096"),
        (SnapshotOrigin("/dev/a"), "snapshot-origin", "/dev/a"),
        (Snapshot("/dev/a", "/dev/b"), "snapshot", "/dev/a /dev/b N 8"),
        (Snapshot("/dev/a", "/dev/b", True, 64), "snapshot", "/dev/a /dev/b P 64"),
        (Flakey("/dev/a", 3, 5, 8), "flakey", "/dev/a 8 3 5 0"),
        (Flakey("/dev/a", 0, 1, drop_writes=True), "flakey", "/dev/a 0 0 1 1 drop_writes"),
        (
            Flakey("/dev/a", 0, 1, error_writes=True, error_reads=True),
            "flakey",
            "/dev/a 0 0 1 2 error_writes error_reads",
        ),
        (
            Flakey("/dev/a", 0, 1, corrupt_byte=CorruptByte(32, Direction.READ, 1, 16)),
            "flakey",
            "/dev/a 0 0 1 5 corrupt_bio_byte 32 r 1 16",
        ),
        (
            Flakey("/dev/a", 0, 1, random_read_corrupt=5, random_write_corrupt=6),
            "flakey",
            "/dev/a 0 0 1 4 random_read_corrupt 5 random_write_corrupt 6",
        ),
    ],
)
def test_a_target_is_one_row(target: Target, kind: str, arguments: str) -> None:
    (row,) = rows_of(whole(1 << 20, target))

    assert row == (0, 2048, kind, arguments)


WRITES, READS = (CorruptByte(1, Direction(direction), 0) for direction in "wr")


@pytest.mark.parametrize(
    "make",
    [
        lambda: Linear("/dev/a", -1),
        lambda: Linear("/dev/a", True),
        lambda: Linear("/dev/a\n").arguments,
        lambda: Linear("").arguments,
        lambda: Latency("/dev/a", 0, -1),
        lambda: Delay(FAST, None, SLOW),
        lambda: Dust("/dev/a", 0, 256),
        lambda: Dust("/dev/a", 0, 1536),
        lambda: Dust.add_bad_block(-1),
        lambda: Snapshot("/dev/a", "/dev/b", False, 12),
        lambda: Flakey("/dev/a", 0, 0),
        lambda: Flakey("/dev/a", 1 << 31, 1 << 31),
        lambda: Flakey("/dev/a", 0, 1, drop_writes=True, error_writes=True),
        lambda: Flakey("/dev/a", 0, 1, drop_writes=True, corrupt_byte=WRITES),
        lambda: Flakey("/dev/a", 0, 1, error_writes=True, random_write_corrupt=1),
        lambda: Flakey("/dev/a", 0, 1, error_reads=True, corrupt_byte=READS),
        lambda: Flakey("/dev/a", 0, 1, random_read_corrupt=1_000_000_001),
        lambda: CorruptByte(0, Direction.READ, 1),
        lambda: CorruptByte(1, Direction.READ, 256),
        lambda: LogWrites.mark(""),
        lambda: LogWrites.mark("a\0b"),
        lambda: LogWrites.mark("\u00e4" * 240),
        lambda: whole(1000, Zero()),
        lambda: whole(0, Zero()),
        lambda: rows_of([]),
        lambda: rows_of([Segment(8, 8, Zero())]),
        lambda: rows_of([Segment(0, 8, Zero()), Segment(16, 8, Zero())]),
        lambda: rows_of([Segment(0, 8, Zero()), Segment(4, 8, Zero())]),
    ],
)
def test_nonsense_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(BadTable):
        make()


def test_what_a_feature_allows_is_not_refused() -> None:
    Flakey("/dev/a", 0, 1, drop_writes=True, corrupt_byte=READS)
    Flakey("/dev/a", 0, 1, error_reads=True, corrupt_byte=WRITES)


@pytest.mark.parametrize("name", ["", "control", ".", "..", "a/b", "a b", "x" * 61, "-x", "\u00e4"])
def test_names_that_no_device_may_have(name: str) -> None:
    with pytest.raises(BadTable):
        check_name(name)


def test_a_mark_stays_one_argument() -> None:
    assert LogWrites.mark("HEAD is\t\\x") == "mark HEAD\\ is\\\t\\\\x"


def test_statuses_are_read() -> None:
    assert LogWrites.logged("12 4096") == (12, 4096)
    assert Snapshot.status("32/2048 16") == SnapshotStatus(True, 32, 2048, 16)
    assert Snapshot.status("Invalid") == SnapshotStatus(False)


def test_what_goes_into_a_guest_is_all_that_is_imported_there() -> None:
    """Standard library only, apart from crashsim's own files that are taken along."""
    files = guest_files()
    for path, content in files.items():
        for node in ast.walk(ast.parse(content)):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            for name in names:
                ours = name.replace(".", "/")
                known = f"{ours}.py" in files or f"{ours}/__init__.py" in files
                assert known or name.partition(".")[0] in sys.stdlib_module_names, (path, name)

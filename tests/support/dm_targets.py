"""Each target created, used, reconfigured under load and removed, in the guest.

Prints one JSON object: target -> "" or what went wrong.
"""

import json
import os
import struct
import time
import traceback
from collections.abc import Callable
from dataclasses import replace

from crashsim.faults.dm.errors import CommandFailed, TargetMissing
from crashsim.faults.dm.flakey import CorruptByte, Direction, Flakey
from crashsim.faults.dm.session import DeviceMapper
from crashsim.faults.dm.snapshots import Snapshot, SnapshotOrigin
from crashsim.faults.dm.targets import Delay, Dust, Error, Latency, Linear, LogWrites, Zero
from tests.support.dm_guest import (
    BLOCK_BYTES,
    DISK,
    MIB,
    OTHER_DISK,
    fails,
    opened,
    part,
    pattern,
    read,
    reconfigure_under_load,
    table,
    write,
)

ALWAYS = 1_000_000_000
JIFFY_SECONDS = 0.01
"""dm-delay counts in jiffies, from the one that has begun (CONFIG_HZ is 100 at least)."""
LOG_MAGIC = 0x6A736677736872  # drivers/md/dm-log-writes.c


def linear(mapper: DeviceMapper) -> None:
    first, second = Linear(DISK, 2 * MIB // 512), Linear(DISK, 40 * MIB // 512)
    with mapper.device("linear", table(first)) as device:
        write(device.path, pattern(1), 3)
        assert read(DISK, 2 * MIB // BLOCK_BYTES + 3) == pattern(1)
        assert device.table()[0].parameters == f"254:16 {first.offset_sectors}"
        load = reconfigure_under_load(device, [table(second), table(first)])
        assert (load.errors, device.table()[0].parameters.split()[1]) == (0, "4096")


def zero(mapper: DeviceMapper) -> None:
    with mapper.device("zero", table(Zero())) as device:
        write(device.path, pattern(1))
        assert read(device.path) == bytes(BLOCK_BYTES)
        load = reconfigure_under_load(device, [table(Linear(DISK)), table(Zero())])
        assert load.errors == 0


def error(mapper: DeviceMapper) -> None:
    with mapper.device("error", table(Error())) as device:
        assert fails(read, device.path)
        assert fails(write, device.path, pattern(1))
        load = reconfigure_under_load(device, [table(Linear(DISK)), table(Error())])
        assert load.errors
        assert load.rounds


def flakey(mapper: DeviceMapper) -> None:
    with (
        part(mapper, "base", DISK, 0) as base,
        mapper.device("flakey", table(Flakey(base.path, 3600, 0))) as device,
    ):
        ill = {name: table(replace(model, device=base.path)) for name, model in _FLAKEY.items()}
        seen = {}
        for name, ill_table in ill.items():
            write(base.path, pattern(1))
            device.reconfigure(ill_table)
            read_fails = fails(read, device.path)
            read_right = None if read_fails else read(device.path) == pattern(1)
            write_fails = fails(write, device.path, pattern(2))
            below = {pattern(1): "old", pattern(2): "new"}.get(read(base.path), "other")
            seen[name] = (read_fails, read_right, write_fails, below)
        assert seen == {
            # reads fail, reads are right, writes fail, what is below afterwards
            "all": (True, None, True, "old"),
            "drop_writes": (False, True, False, "old"),
            "error_writes": (False, True, True, "old"),
            "error_reads": (True, None, False, "new"),
            "corrupt_reads": (False, False, False, "new"),
            "corrupt_writes": (False, True, False, "other"),
            "random_reads": (False, False, False, "new"),
            "random_writes": (False, True, False, "other"),
            "well": (False, True, False, "new"),
        }, seen
        load = reconfigure_under_load(
            device, [ill["well"], ill["error_writes"], ill["well"], ill["drop_writes"]], rounds=8
        )
        assert load.errors


_FLAKEY = {
    "all": Flakey("", 0, 1),
    "drop_writes": Flakey("", 0, 1, drop_writes=True),
    "error_writes": Flakey("", 0, 1, error_writes=True),
    "error_reads": Flakey("", 0, 1, error_reads=True),
    "corrupt_reads": Flakey("", 0, 1, corrupt_byte=CorruptByte(5, Direction.READ, 255)),
    "corrupt_writes": Flakey("", 0, 1, corrupt_byte=CorruptByte(5, Direction.WRITE, 255)),
    "random_reads": Flakey("", 0, 1, random_read_corrupt=ALWAYS),
    "random_writes": Flakey("", 0, 1, random_write_corrupt=ALWAYS),
    "well": Flakey("", 3600, 0),
}


def delay(mapper: DeviceMapper) -> None:
    slow, quick = Latency(DISK, 0, 300), Latency(DISK, 0, 0)
    with mapper.device("delay", table(Delay(quick, slow))) as device:
        began = time.monotonic()
        write(device.path, pattern(1))
        assert time.monotonic() - began >= 0.3 - JIFFY_SECONDS
        began = time.monotonic()
        assert read(device.path) == pattern(1)
        load = reconfigure_under_load(
            device, [table(Delay(quick, quick, slow)), table(Delay(quick, Latency(DISK, 0, 20)))]
        )
        assert (load.errors, load.wrong) == (0, [])


def log_writes(mapper: DeviceMapper) -> None:
    mark = "saved: a b\\c \u00e4"
    write(OTHER_DISK, bytes(BLOCK_BYTES))
    with (
        part(mapper, "log", OTHER_DISK, 0) as log,
        mapper.device("logged", table(LogWrites(DISK, log.path))) as device,
    ):
        write(device.path, pattern(1))
        device.message(LogWrites.mark(mark))
        write(device.path, pattern(2))
        # What has not been flushed yet is not in the log yet.
        with opened(device.path) as descriptor:
            os.fsync(descriptor)
        entries, end = LogWrites.logged(device.status()[0].parameters)
        assert 0 <= entries <= end
        load = reconfigure_under_load(device, [table(Linear(DISK)), table(Linear(DISK))], rounds=2)
        assert (load.errors, load.wrong) == (0, [])
    magic, _, count, _ = struct.unpack_from("<QQQI", read(OTHER_DISK))
    assert magic == LOG_MAGIC
    assert count >= max(entries, 4)
    assert mark.encode() + b"\0" in read(OTHER_DISK, 0, 256 * BLOCK_BYTES)


def snapshot(mapper: DeviceMapper) -> None:
    with (
        part(mapper, "base", DISK, 0) as base,
        part(mapper, "store", OTHER_DISK, 32, MIB) as store,
        mapper.device("origin", table(SnapshotOrigin(base.path))) as origin,
    ):
        write(store.path, bytes(BLOCK_BYTES))
        write(origin.path, pattern(1))
        taken = Snapshot(base.path, store.path, persistent=True)
        with mapper.device("snapshot", table(taken), suspending=[origin]) as device:
            write(origin.path, pattern(2))
            write(device.path, pattern(3), 1)
            assert (read(device.path), read(origin.path)) == (pattern(1), pattern(2))
            status = Snapshot.status(device.status()[0].parameters)
            assert status.valid
            assert 0 < status.used_sectors < status.total_sectors == MIB // 512
            load = reconfigure_under_load(
                origin, [table(Linear(base.path)), table(SnapshotOrigin(base.path))]
            )
            assert (load.errors, load.wrong) == (0, [])
            before = device.info.event_number
            write(origin.path, bytes(2 * MIB), 64)
            assert device.wait_for_event(before, 30) > before
            assert not Snapshot.status(device.status()[0].parameters).valid


def dust(mapper: DeviceMapper) -> None:
    with mapper.device("dust", table(Dust(DISK, 0, BLOCK_BYTES))) as device:
        write(device.path, pattern(1) * 4)
        device.message(Dust.add_bad_block(2))
        assert read(device.path, 2) == pattern(1)
        device.message(Dust.ENABLE)
        assert fails(read, device.path, 2)
        assert read(device.path, 1) == pattern(1)
        write(device.path, pattern(2), 2)
        assert read(device.path, 2) == pattern(2)
        load = reconfigure_under_load(device, [table(Linear(DISK)), table(Dust(DISK))])
        assert (load.errors, load.wrong) == (0, [])


TARGETS: dict[str, Callable[[DeviceMapper], None]] = {
    "linear": linear,
    "zero": zero,
    "error": error,
    "flakey": flakey,
    "delay": delay,
    "log-writes": log_writes,
    "snapshot": snapshot,
    "dust": dust,
}


def main() -> None:
    problems = {}
    with DeviceMapper() as mapper:
        for name, check in TARGETS.items():
            try:
                check(mapper)
                problems[name] = ""
            except TargetMissing as problem:
                problems[name] = f"missing: {problem}"
            except (AssertionError, CommandFailed, OSError):
                problems[name] = traceback.format_exc()
    print(json.dumps(problems))


if __name__ == "__main__":
    main()

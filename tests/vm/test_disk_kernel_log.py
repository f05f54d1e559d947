"""A log that the kernel's own dm-log-writes took in a guest, imported."""

from pathlib import Path

import pytest

from crashsim.disk.dm_log_writes import import_dm_log
from crashsim.disk.durability import pending
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log
from crashsim.disk.recording_disk import MemoryDisk
from crashsim.disk.request import Operation, Request
from crashsim.disk.state import CrashState
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.qemu import QemuMachine

pytestmark = pytest.mark.vm

DEVICE_BYTES = 128 << 20
LOG_BYTES = 512 << 20
PIECE_BYTES = 16 << 20
SAVED = b"this was saved before the mark " * 400

SCRIPT = f"""
modprobe dm-log-writes 2>/dev/null || true
dmsetup create logged --noudevsync \
    --table "0 {DEVICE_BYTES // 512} log-writes /dev/vdb /dev/vdc"
mkfs.ext4 -q /dev/dm-0
mkdir -p /tmp/logged
mount /dev/dm-0 /tmp/logged
cp /tmp/saved /tmp/logged/saved
sync
dmsetup message logged 0 mark saved
for number in 1 2 3 4 5 6 7 8; do
    head -c 100000 /dev/urandom >/tmp/logged/random$number
    rm -f /tmp/logged/random$((number - 2))
    sync /tmp/logged/random$number
done
sync
fstrim /tmp/logged
umount /tmp/logged
dmsetup remove --noudevsync logged
"""


def test_a_log_taken_by_the_kernel_replays_to_the_same_image(
    machine: QemuMachine, tmp_path: Path
) -> None:
    data, log_device = MemoryDisk(CRASH_DISK_BYTES), MemoryDisk(CRASH_DISK_BYTES)
    with machine.start() as guest:
        guest.attach(0, data)
        guest.attach(1, log_device)
        guest.write_file("/tmp/saved", SAVED)
        done = guest.run(["sh", "-ec", SCRIPT], timeout_seconds=240)
        assert done.returncode == 0, done.stderr.decode()
    kernel_log = tmp_path / "kernel.log"
    with kernel_log.open("wb") as file:
        for offset in range(0, LOG_BYTES, PIECE_BYTES):
            file.write(_read(log_device, offset))
    import_dm_log(kernel_log, tmp_path / "log", DEVICE_BYTES)
    with Log.open(tmp_path / "log") as log:
        assert [mark.text for mark in log.marks] == ["saved"]
        assert (log.requests.operation == Operation.FLUSH).sum() > 8
        assert log.requests.fua.any()
        assert (log.requests.operation == Operation.TRIM).any()
        index = ImageIndex(log)
        end = CrashState(log.event_count)
        for offset in range(0, DEVICE_BYTES, PIECE_BYTES):
            assert index.read(end, offset, PIECE_BYTES) == _read(data, offset)
        saved = log.marks[0].position
        durable_only = CrashState.make(saved, pending(log, saved).tolist())
        index.check_legal(durable_only)
        image = index.read(durable_only, 0, DEVICE_BYTES)
        assert SAVED[:4096] in image
    data.close()
    log_device.close()


def _read(disk: MemoryDisk, offset: int) -> bytes:
    return disk.perform(Request(Operation.READ, offset, PIECE_BYTES))

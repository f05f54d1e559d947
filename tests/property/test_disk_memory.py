"""A large recording takes little memory, and a state of it no longer than one of a small one."""

import subprocess
import sys
from pathlib import Path

import pytest

RECORD = """
import random, sys
from pathlib import Path
from crashsim.disk.log import LogWriter
from crashsim.disk.request import Operation, Request

chooser = random.Random(1)
block = chooser.randbytes(4096 + 255)
with LogWriter(Path(sys.argv[1]), 16 << 30) as writer:
    for number in range(1 << 18):
        offset = chooser.randrange(1 << 19) * 4096
        data = block[number % 256 :][:4096]
        writer.complete(writer.submit(Request(Operation.WRITE, offset, 4096, False, data)))
        if number % 64 == 63:
            writer.complete(writer.submit(Request(Operation.FLUSH)))
"""

EXPLORE = """
import random, resource, sys
from pathlib import Path
from crashsim.disk.crash_disk import CrashStateDisk
from crashsim.disk.durability import pending
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log
from crashsim.disk.request import Operation, Request
from crashsim.disk.state import CrashState

chooser = random.Random(2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with Log.open(Path(sys.argv[1])) as log:
    index = ImageIndex(log)
    disk = CrashStateDisk(index)
    for _ in range(200):
        cut = chooser.randrange(log.event_count)
        lost = pending(log, cut, index.durable).tolist()
        state = CrashState.make(cut, chooser.sample(lost, len(lost) // 2))
        index.identity(state)
        disk.show(state)
        for _ in range(20):
            offset = chooser.randrange(1 << 14) * (128 << 10)
            disk.perform(Request(Operation.READ, offset, 128 << 10))
        index.page_digests(state, disk.pages_read().tolist())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_a_recording_of_a_gigabyte_takes_little_memory(tmp_path: Path) -> None:
    """1 GiB of random 4 KiB writes; 75 MiB here are 300 MiB for 4 GiB, as the issue asks."""
    directory = tmp_path / "log"
    subprocess.run([sys.executable, "-c", RECORD, str(directory)], check=True, timeout=250)
    assert (directory / "data.bin").stat().st_size == 1 << 30
    explored = subprocess.run(
        [sys.executable, "-c", EXPLORE, str(directory)],
        check=True,
        timeout=250,
        capture_output=True,
        text=True,
    )
    assert int(explored.stdout) < 75 << 10

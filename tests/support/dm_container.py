"""Device-mapper where /dev is a plain tmpfs, as in a container; after `unshare -m` in the guest."""

import os
import subprocess

from crashsim.faults.dm.session import DeviceMapper
from crashsim.faults.dm.tables import whole
from crashsim.faults.dm.targets import Linear

SIZE_BYTES = 1 << 20
DISK_NUMBER = "254:16"

subprocess.run(["mount", "-t", "tmpfs", "container", "/dev"], check=True)
with DeviceMapper() as mapper, mapper.device("box", whole(SIZE_BYTES, Linear(DISK_NUMBER))) as box:
    assert box.path == "/dev/mapper/box"
    descriptor = os.open(box.path, os.O_RDWR)
    assert os.pwrite(descriptor, b"box" * 1000, 0) == 3000
    os.fsync(descriptor)
    os.close(descriptor)
assert os.listdir("/dev/mapper") == []
assert os.listdir("/dev") == ["mapper"]
print("ok")

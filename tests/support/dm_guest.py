"""What the tests of device-mapper share, inside the guest: `python3 SCENARIO.py`, stdlib only."""

import contextlib
import errno
import mmap
import os
import threading
from collections.abc import Callable, Iterator

from crashsim.faults.dm.device import Device
from crashsim.faults.dm.session import DeviceMapper
from crashsim.faults.dm.tables import Table, Target, whole
from crashsim.faults.dm.targets import Linear

MIB = 1 << 20
SIZE_BYTES = 16 * MIB
BLOCK_BYTES = 4096
DISK, OTHER_DISK = "/dev/vdb", "/dev/vdc"


def table(target: Target, size_bytes: int = SIZE_BYTES) -> Table:
    return whole(size_bytes, target)


def part(
    mapper: DeviceMapper, name: str, disk: str, offset_mib: int, size_bytes: int = SIZE_BYTES
) -> contextlib.AbstractContextManager[Device]:
    """A piece of a disk, as a device."""
    return mapper.device(name, table(Linear(disk, offset_mib * MIB // 512), size_bytes))


def pattern(seed: int) -> bytes:
    return f"{seed:016}".encode() * (BLOCK_BYTES // 16)


@contextlib.contextmanager
def opened(path: str, flags: int = os.O_RDWR | os.O_DIRECT) -> Iterator[int]:
    descriptor = os.open(path, flags | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def write(path: str, content: bytes, block: int = 0) -> None:
    """Straight to the device: O_DIRECT takes aligned memory only, as mmap gives it."""
    with opened(path) as descriptor, mmap.mmap(-1, len(content)) as memory:
        memory[:] = content
        assert os.pwritev(descriptor, [memory], block * BLOCK_BYTES) == len(content)


def read(path: str, block: int = 0, size_bytes: int = BLOCK_BYTES) -> bytes:
    with opened(path) as descriptor, mmap.mmap(-1, size_bytes) as memory:
        assert os.preadv(descriptor, [memory], block * BLOCK_BYTES) == size_bytes
        return memory[:]


def fails(call: Callable[..., object], *arguments: object) -> bool:
    """Whether I/O fails with EIO; any other failure is a failure of the test."""
    try:
        call(*arguments)
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return True
    return False


class Load:
    """A thread that writes blocks to a device and reads them back, until it is told to end.

    :ivar rounds: writes that succeeded. :ivar errors: those that failed with EIO.
    """

    def __init__(self, path: str) -> None:
        self.rounds = self.errors = 0
        self.wrong: list[int] = []
        self._path = path
        self._end = threading.Event()
        self._progress = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.is_set():
            block = self.rounds % 64 + 1024
            content = pattern(self.rounds)
            if fails(write, self._path, content, block):
                self.errors += 1
            else:
                self.rounds += 1
                if self._read_back(block) not in (content, None):
                    self.wrong.append(block)
            with self._progress:
                self._progress.notify_all()

    def _read_back(self, block: int) -> bytes | None:
        """None where the read fails: the table may be another one by now."""
        seen: list[bytes] = []
        fails(lambda: seen.append(read(self._path, block)))
        return seen[0] if seen else None

    def more(self, count: int = 2) -> None:
        """Wait until some more requests have been answered, one way or the other."""
        goal = self.rounds + self.errors + count
        with self._progress:
            done = self._progress.wait_for(lambda: self.rounds + self.errors >= goal, 60)
        assert done, "the load stands still"

    def __enter__(self) -> "Load":
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join(60)
        assert not self._thread.is_alive(), "a request never ended"


def reconfigure_under_load(device: Device, tables: list[Table], rounds: int = 4) -> Load:
    """Switch between tables while requests run; the load, which has ended."""
    with Load(device.path) as load:
        load.more()
        for number in range(rounds):
            device.reconfigure(tables[number % len(tables)])
            load.more()
    return load

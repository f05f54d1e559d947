"""Short ways to say what programs do, on any port."""

import os

from crashsim.model.simulated import WRITE_OUT_AND_WAIT, Simulated

NEW = b"new content"


def put(
    machine: Simulated, path: str, content: bytes = NEW, *, fsync: bool = False, pages: bool = False
) -> None:
    """Create a file; write it out (`pages`) or sync it before it is closed."""
    descriptor = machine.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    machine.write(descriptor, content)
    if pages:
        machine.sync_file_range(descriptor, 0, 0, WRITE_OUT_AND_WAIT)
    if fsync:
        machine.fsync(descriptor)
    machine.close(descriptor)


def sync(machine: Simulated, path: str, *, data_only: bool = False) -> None:
    """fsync or fdatasync of a file or directory by path."""
    descriptor = machine.open(path, os.O_RDONLY)
    if data_only:
        machine.fdatasync(descriptor)
    else:
        machine.fsync(descriptor)
    machine.close(descriptor)


def append(machine: Simulated, path: str, content: bytes) -> None:
    """Append to a file that is there."""
    descriptor = machine.open(path, os.O_WRONLY | os.O_APPEND)
    machine.write(descriptor, content)
    machine.close(descriptor)


def overwrite(machine: Simulated, path: str, content: bytes) -> None:
    """Write over the beginning of a file that is there."""
    descriptor = machine.open(path, os.O_WRONLY)
    machine.write(descriptor, content)
    machine.close(descriptor)

"""Removing all devices of a process that can no longer do it itself."""

import contextlib
from collections.abc import Iterator

from . import abi, nodes, owners
from .control import Control, DeviceInfo
from .errors import CommandFailed

GONE = "ENXIO"
"""The errno of a command for a device that is not there."""


@contextlib.contextmanager
def may_be_gone() -> Iterator[None]:
    """Let commands fail for a device that is not there (any more)."""
    try:
        yield
    except CommandFailed as error:
        if error.errno_name != GONE:
            raise


def sweep(control: Control, prefix: str) -> int:
    """Remove every device whose uuid begins with `prefix`; how many there were.

    What still has one open gets EIO from then on, and the kernel removes the device when it is
    closed: the process that knew what to do with it is gone. Raises the first CommandFailed, once
    all devices have been tried.
    """
    devices = owned(control, prefix)
    failures = []
    for device in devices:
        if device.suspended:
            # Lower ones first: what hangs in an upper one waits for them.
            try:
                resume_as_it_was(control, device.uuid)
            except CommandFailed as error:
                failures.append(error)
    for device in reversed(devices):
        try:
            _remove(control, device)
        except CommandFailed as error:
            failures.append(error)
    if failures:
        raise failures[0]
    return len(devices)


def sweep_orphans(control: Control) -> int:
    """Remove the devices of our kind whose process is dead, in this pid namespace; how many."""
    count = 0
    for owner in {owners.owner_of(device.uuid) for device in owned(control, "")}:
        if owner and owner.namespace == owners.namespace() and not owner.lives:
            count += sweep(control, owner.prefix)
    return count


def owned(control: Control, prefix: str) -> list[DeviceInfo]:
    """The devices whose uuid begins with `prefix`, oldest first."""
    found = []
    for name in control.names():
        with may_be_gone():
            device = control.status(name=name)
            if device.uuid.startswith(prefix):
                found.append(device)
    return sorted(found, key=_age)


def resume_as_it_was(control: Control, uuid: str) -> None:
    """Resume a device with the table that is live, whatever else has been loaded."""
    with may_be_gone():
        device = control.status(uuid=uuid)
        if device.has_inactive_table:
            control.clear(uuid)
        if device.suspended and device.has_table:
            control.resume(uuid)


def _age(device: DeviceInfo) -> tuple[int, int, str]:
    if owners.owner_of(device.uuid) is None:
        return 0, 0, device.uuid
    session, number = device.uuid.partition(":")[0].split("-")[-2:]
    return int(session), int(number), device.uuid


def _remove(control: Control, device: DeviceInfo) -> None:
    with may_be_gone():
        if control.status(uuid=device.uuid).open_count:
            _fail_all_requests(control, device.uuid)
        control.remove(device.uuid)
    nodes.remove_own_node(device.name, device.major, device.minor)


def _fail_all_requests(control: Control, uuid: str) -> None:
    rows = control.rows(uuid, arguments=False)
    length = sum(row.length_sectors for row in rows)
    if length:
        control.load(uuid, [abi.TargetRow(0, length, "error", "")])
        control.suspend(uuid, flush=False, freeze=False)
        control.resume(uuid)

"""Device-mapper's control node: one method for each ioctl that is used."""

import fcntl
import os
import stat
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from . import abi
from .errors import CommandFailed, DeviceMapperMissing
from .kernel_log import KernelLog

CONTROL_NODE = "/dev/mapper/control"
MISC_MAJOR, CONTROL_MINOR = 10, 236  # the kernel's admin-guide/devices.txt
BUFFER_BYTES = 16 << 10
BUFFER_BYTES_MAX = 16 << 20


class DeviceInfo(NamedTuple):
    """A device as the kernel describes it.

    :ivar open_count: how many have it open, mounts and other devices included.
    :ivar event_number: how many events it has had.
    """

    name: str
    uuid: str
    major: int
    minor: int
    open_count: int
    event_number: int
    suspended: bool
    has_table: bool
    has_inactive_table: bool
    removal_is_deferred: bool


class Control:
    """An open control node. Every command raises CommandFailed where the kernel refuses."""

    def __init__(self) -> None:
        """Open it. Raises DeviceMapperMissing, in one line, where that is impossible."""
        self.descriptor = _open_control_node()
        self._log = KernelLog()

    def close(self) -> None:
        """Close it. Idempotent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self._log.close()
            self.descriptor = -1

    def __enter__(self) -> Self:
        """Itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()

    def versions(self) -> dict[str, tuple[int, int, int]]:
        """The version of every target that is loaded; others may be on disk, as modules."""
        _, data = self.perform(abi.DM_LIST_VERSIONS, abi.Header())
        return dict(abi.unpack_versions(data))

    def names(self) -> list[str]:
        """The names of all devices."""
        _, data = self.perform(abi.DM_LIST_DEVICES, abi.Header())
        return [name for name, _ in abi.unpack_names(data)]

    def create(self, name: str, uuid: str) -> DeviceInfo:
        """A new device without a table."""
        return self._info(abi.DM_DEV_CREATE, abi.Header(name, uuid))

    def remove(self, uuid: str) -> bool:
        """Remove a device, or have the kernel do it once nobody has it open.

        Whether it is gone at once.
        """
        header = abi.Header(
            uuid=uuid, flags=abi.DM_DEFERRED_REMOVE, event_number=abi.UDEV_LEAVE_ALONE
        )
        answer, _ = self.perform(abi.DM_DEV_REMOVE, header)
        return not answer.flags & abi.DM_DEFERRED_REMOVE

    def suspend(self, uuid: str, *, flush: bool, freeze: bool) -> DeviceInfo:
        """Hold back all I/O from now on: see `device.Suspension`."""
        flags = abi.DM_SUSPEND_FLAG
        flags |= 0 if flush else abi.DM_NOFLUSH_FLAG
        flags |= 0 if freeze else abi.DM_SKIP_LOCKFS_FLAG
        return self._info(abi.DM_DEV_SUSPEND, abi.Header(uuid=uuid, flags=flags))

    def resume(self, uuid: str) -> DeviceInfo:
        """Make the inactive table the live one, if there is one, and let I/O through."""
        header = abi.Header(
            uuid=uuid,
            flags=abi.DM_NOFLUSH_FLAG | abi.DM_SKIP_LOCKFS_FLAG,
            event_number=abi.UDEV_LEAVE_ALONE,
        )
        return self._info(abi.DM_DEV_SUSPEND, header)

    def status(self, *, name: str = "", uuid: str = "") -> DeviceInfo:
        """A device by its name or its uuid; ENXIO where there is none."""
        return self._info(abi.DM_DEV_STATUS, abi.Header(name, uuid))

    def load(self, uuid: str, rows: Sequence[abi.TargetRow]) -> DeviceInfo:
        """Put a table into the inactive slot."""
        header = abi.Header(uuid=uuid, target_count=len(rows))
        return self._info(abi.DM_TABLE_LOAD, header, abi.pack_rows(rows))

    def clear(self, uuid: str) -> DeviceInfo:
        """Throw the inactive table away."""
        return self._info(abi.DM_TABLE_CLEAR, abi.Header(uuid=uuid))

    def rows(self, uuid: str, *, arguments: bool) -> list[abi.TargetRow]:
        """The live table's rows, with their arguments or with their status.

        NOFLUSH, since some targets would else write to their disk before they answer.
        """
        flags = abi.DM_NOFLUSH_FLAG | (abi.DM_STATUS_TABLE_FLAG if arguments else 0)
        header, data = self.perform(abi.DM_TABLE_STATUS, abi.Header(uuid=uuid, flags=flags))
        return abi.unpack_rows(data, header.target_count)

    def message(self, uuid: str, sector: int, text: str) -> str:
        """Send a message to the target at `sector`; what it answers, mostly nothing."""
        payload = abi.pack_message(sector, text)
        header, data = self.perform(abi.DM_TARGET_MSG, abi.Header(uuid=uuid), payload)
        answered = header.flags & abi.DM_DATA_OUT_FLAG
        return data.partition(b"\0")[0].decode("utf-8", "replace") if answered else ""

    def arm_poll(self) -> None:
        """Make the descriptor unreadable until the next event of any device."""
        self.perform(abi.DM_DEV_ARM_POLL, abi.Header())

    def perform(
        self, command: int, header: abi.Header, payload: bytes = b""
    ) -> tuple[abi.Header, bytes]:
        """One ioctl, again with more room for its answer as long as the kernel wants that."""
        size = max(BUFFER_BYTES, abi.HEADER_BYTES + len(payload))
        while True:
            buffer = abi.pack(header, payload, size)
            self._log.forward()
            try:
                fcntl.ioctl(self.descriptor, abi.request_code(command), buffer)
            except OSError as error:
                name = header.name or header.uuid.partition(":")[2]
                told = self._log.read()
                number = error.errno or 0
                raise CommandFailed(abi.COMMAND_NAMES[command], name, number, told) from error
            answer, data = abi.unpack(buffer)
            if not answer.flags & abi.DM_BUFFER_FULL_FLAG or size >= BUFFER_BYTES_MAX:
                return answer, data
            size *= 2

    def _info(self, command: int, header: abi.Header, payload: bytes = b"") -> DeviceInfo:
        answer, _ = self.perform(command, header, payload)
        return DeviceInfo(
            answer.name,
            answer.uuid,
            *abi.decode_device(answer.device),
            answer.open_count,
            answer.event_number,
            bool(answer.flags & abi.DM_SUSPEND_FLAG),
            bool(answer.flags & abi.DM_ACTIVE_PRESENT_FLAG),
            bool(answer.flags & abi.DM_INACTIVE_PRESENT_FLAG),
            bool(answer.flags & abi.DM_DEFERRED_REMOVE),
        )


def _open_control_node() -> int:
    try:
        if os.path.exists(CONTROL_NODE):
            return os.open(CONTROL_NODE, os.O_RDWR | os.O_CLOEXEC)
        # A container's /dev, or a module that nobody has asked for yet: to open a node of this
        # number makes the kernel load it.
        node = f"/dev/.crashsim-dm-{os.getpid()}-{os.urandom(4).hex()}"
        os.mknod(node, stat.S_IFCHR | 0o600, os.makedev(MISC_MAJOR, CONTROL_MINOR))
        try:
            return os.open(node, os.O_RDWR | os.O_CLOEXEC)
        finally:
            os.unlink(node)
    except OSError as error:
        raise _missing(error) from error


def _missing(error: OSError) -> DeviceMapperMissing:
    if isinstance(error, PermissionError):
        return DeviceMapperMissing(
            f"no permission to use device-mapper ({error.strerror}): it takes root, in a container "
            "`docker run --privileged`; or let crashsim do it in a guest"
        )
    return DeviceMapperMissing(
        f"this kernel has no device-mapper ({error.strerror}): load the module dm_mod, or let "
        "crashsim do it in a guest"
    )

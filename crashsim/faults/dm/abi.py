"""The structures of device-mapper's ioctl interface, as linux/dm-ioctl.h (version 4) lays them out.

The guardian starts with this module and little else, in an emulated guest too, where to import
`dataclasses` takes half a second: hence named tuples.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

VERSION = (4, 0, 0)
"""What we ask for: the kernel refuses a minor version that is newer than its own."""

SECTOR_BYTES = 512
NAME_BYTES_MAX = 127
UUID_BYTES_MAX = 128

# In the order of the header's enum.
DM_VERSION, DM_REMOVE_ALL, DM_LIST_DEVICES = range(3)
DM_DEV_CREATE, DM_DEV_REMOVE, DM_DEV_RENAME, DM_DEV_SUSPEND, DM_DEV_STATUS, DM_DEV_WAIT = range(
    3, 9
)
DM_TABLE_LOAD, DM_TABLE_CLEAR, DM_TABLE_DEPS, DM_TABLE_STATUS = range(9, 13)
DM_LIST_VERSIONS, DM_TARGET_MSG, DM_DEV_SET_GEOMETRY, DM_DEV_ARM_POLL = range(13, 17)
COMMAND_NAMES = {
    DM_VERSION: "version",
    DM_LIST_DEVICES: "list devices",
    DM_DEV_CREATE: "create",
    DM_DEV_REMOVE: "remove",
    DM_DEV_SUSPEND: "suspend or resume",
    DM_DEV_STATUS: "status",
    DM_TABLE_LOAD: "load a table",
    DM_TABLE_CLEAR: "clear the inactive table",
    DM_TABLE_STATUS: "table status",
    DM_LIST_VERSIONS: "list versions",
    DM_TARGET_MSG: "message",
    DM_DEV_ARM_POLL: "arm poll",
}

DM_READONLY_FLAG = 1 << 0
DM_SUSPEND_FLAG = 1 << 1
DM_STATUS_TABLE_FLAG = 1 << 4
DM_ACTIVE_PRESENT_FLAG = 1 << 5
DM_INACTIVE_PRESENT_FLAG = 1 << 6
DM_BUFFER_FULL_FLAG = 1 << 8
DM_SKIP_LOCKFS_FLAG = 1 << 10
DM_NOFLUSH_FLAG = 1 << 11
DM_DATA_OUT_FLAG = 1 << 16
DM_DEFERRED_REMOVE = 1 << 17

UDEV_LEAVE_ALONE = (0x0001 | 0x0002 | 0x0004 | 0x0008 | 0x0040) << 16
"""The upper half of a udev cookie (libdevmapper.h): dm, subsystem, disk and other rules off, and we
are the ones to say so. A udev that probes a device keeps it busy when it is to be removed."""

_HEADER = struct.Struct("=3I 2I I i 2I I Q 128s 129s 7x")
_TARGET = struct.Struct("=2Q i I 16s")
_LIST_ENTRY = struct.Struct("=QI")
_VERSION_ENTRY = struct.Struct("=4I")
HEADER_BYTES = _HEADER.size
ALIGNMENT = 8


class BadAnswer(Exception):
    """The kernel's answer is not laid out as the header says: another interface than version 4."""


class Header(NamedTuple):
    """`struct dm_ioctl`, without the version and the sizes.

    :ivar event_number: on the way in for some commands the udev cookie instead.
    :ivar device: the device number in the kernel's encoding for user space (`decode_device`).
    """

    name: str = ""
    uuid: str = ""
    flags: int = 0
    target_count: int = 0
    open_count: int = 0
    event_number: int = 0
    device: int = 0


class TargetRow(NamedTuple):
    """One row of a table, loaded or reported.

    :ivar parameters: of the target: its arguments, or its status.
    """

    start_sector: int
    length_sectors: int
    kind: str
    parameters: str


class TargetVersion(NamedTuple):
    """A target that this kernel has loaded."""

    name: str
    version: tuple[int, int, int]


def request_code(command: int) -> int:
    """`_IOWR(DM_IOCTL, command, struct dm_ioctl)`: asm-generic/ioctl.h."""
    return (3 << 30) | (HEADER_BYTES << 16) | (0xFD << 8) | command


def pack(header: Header, payload: bytes, size_bytes: int) -> bytearray:
    """A buffer of `size_bytes` for one ioctl: it takes the request there and the answer back."""
    buffer = bytearray(size_bytes)
    _HEADER.pack_into(
        buffer,
        0,
        *VERSION,
        size_bytes,
        HEADER_BYTES,
        header.target_count,
        header.open_count,
        header.flags,
        header.event_number,
        0,
        header.device,
        header.name.encode(),
        header.uuid.encode(),
    )
    buffer[HEADER_BYTES : HEADER_BYTES + len(payload)] = payload
    return buffer


def unpack(buffer: bytes | bytearray) -> tuple[Header, bytes]:
    """What the kernel left in the buffer: its header and the data behind it. Raises BadAnswer."""
    if len(buffer) < HEADER_BYTES:
        raise BadAnswer(f"{len(buffer)} bytes are no dm_ioctl")
    fields = _HEADER.unpack_from(buffer)
    size, start, target_count, open_count, flags, event_number, _, device, name, uuid = fields[3:]
    if not HEADER_BYTES <= start <= len(buffer) or size > len(buffer):
        raise BadAnswer(f"data at {start} of {size} bytes in a buffer of {len(buffer)}")
    header = Header(_text(name), _text(uuid), flags, target_count, open_count, event_number, device)
    return header, bytes(buffer[start : max(size, start)])


def pack_rows(rows: Sequence[TargetRow]) -> bytes:
    """A table as DM_TABLE_LOAD takes it: each row gives the distance to the next one."""
    packed = []
    for row in rows:
        parameters = row.parameters.encode() + b"\0"
        size = _aligned(_TARGET.size + len(parameters))
        head = _TARGET.pack(row.start_sector, row.length_sectors, 0, size, row.kind.encode())
        packed.append((head + parameters).ljust(size, b"\0"))
    return b"".join(packed)


def unpack_rows(data: bytes, count: int) -> list[TargetRow]:
    """Rows as DM_TABLE_STATUS gives them: `next` counts from the first one. Raises BadAnswer."""
    rows = []
    offset = 0
    for _ in range(count):
        start, length, _, following, kind = _unpack_at(_TARGET, data, offset)
        rows.append(TargetRow(start, length, _text(kind), _text_at(data, offset + _TARGET.size)))
        offset = following
    return rows


def unpack_names(data: bytes) -> list[tuple[str, int]]:
    """(name, device number) of every device, from DM_LIST_DEVICES. Raises BadAnswer."""
    found = []
    for offset in _chain(data, _LIST_ENTRY, 1):
        device, _ = _LIST_ENTRY.unpack_from(data, offset)
        # A list without any device is one entry whose device is zero.
        if device:
            found.append((_text_at(data, offset + _LIST_ENTRY.size), device))
    return found


def unpack_versions(data: bytes) -> list[TargetVersion]:
    """Every loaded target, from DM_LIST_VERSIONS. Raises BadAnswer."""
    found = []
    for offset in _chain(data, _VERSION_ENTRY, 0):
        _, major, minor, patch = _VERSION_ENTRY.unpack_from(data, offset)
        name = _text_at(data, offset + _VERSION_ENTRY.size)
        found.append(TargetVersion(name, (major, minor, patch)))
    return found


def pack_message(sector: int, text: str) -> bytes:
    """A message to the target at a sector, as DM_TARGET_MSG takes it."""
    return struct.pack("=Q", sector) + text.encode() + b"\0"


def decode_device(number: int) -> tuple[int, int]:
    """(major, minor) from `huge_encode_dev` (linux/kdev_t.h)."""
    return (number & 0xFFF00) >> 8, (number & 0xFF) | ((number >> 12) & 0xFFF00)


def _chain(data: bytes, entry: struct.Struct, next_field: int) -> Iterator[int]:
    """Offsets of a list whose entries give the distance to the next one, the last one zero."""
    offset = 0
    while data:
        step = int(_unpack_at(entry, data, offset)[next_field])
        yield offset
        if not step:
            return
        offset += step


def _unpack_at(layout: struct.Struct, data: bytes, offset: int) -> tuple[Any, ...]:
    if offset + layout.size > len(data):
        raise BadAnswer(f"an entry at {offset} of {len(data)} bytes is cut off")
    return layout.unpack_from(data, offset)


def _text_at(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset)
    if end < 0:
        raise BadAnswer(f"the text at {offset} of {len(data)} bytes has no end")
    return data[offset:end].decode("utf-8", "replace")


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("utf-8", "replace")


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT

"""The log's two files as bytes.

`events.bin` is a header of 32 bytes and then one record of 32 bytes for each event; an event's
index is its *position*. `data.bin` holds the payloads of WRITEs and the texts of marks (UTF-8,
filled up with zeroes to whole sectors), end to end in the order of their events. All integers are
little-endian.
"""

import struct
from enum import IntEnum

import numpy as np

EVENTS_NAME = "events.bin"
DATA_NAME = "data.bin"

MAGIC = b"crshlog\n"
VERSION = 1
HEADER = struct.Struct("<8sIIQQ")
"""Magic, version, bytes a record, bytes of the disk, how many disks (0: one).

Several disks are one after the other in one space of addresses, all of one size: "bytes of the
disk" are those of all of them.
"""

RECORD = struct.Struct("<BBBxIQQQ")
"""Kind, operation, flags, -, small, place, data offset, monotonic time in ns.

SUBMIT: small = length in bytes, place = offset on the disk; of a FLUSH: the offset at which its
disk begins. COMPLETE: small = errno, place = request number. MARK: small = length of its text in
bytes.
"""

RECORD_DTYPE = np.dtype(
    [
        ("kind", "u1"),
        ("operation", "u1"),
        ("flags", "u1"),
        ("zero", "u1"),
        ("small", "<u4"),
        ("place", "<u8"),
        ("data_offset", "<u8"),
        ("time_ns", "<u8"),
    ]
)

FLAG_FUA = 1
MAXIMUM_DISKS = 16
MAXIMUM_ERRNO = 4095
MAXIMUM_MARK_BYTES = 1 << 20
MAXIMUM_DATA_BYTES = 1 << 40
MAXIMUM_LENGTH_BYTES = (1 << 32) - 1
NEVER = (1 << 63) - 1
"""A position later than every event: what never happened."""


class EventKind(IntEnum):
    """The kinds of events; the values are written to disk and must not change."""

    SUBMIT = 1
    COMPLETE = 2
    MARK = 3


assert HEADER.size == RECORD.size == RECORD_DTYPE.itemsize == 32

"""The records of a reftable's four kinds of blocks, without the prefix compression of their keys.

A record is a key (by which a section is sorted), three bits that are in one number with the
key's length, and a value.
"""

import struct
from functools import lru_cache
from typing import NamedTuple

from impl.refs.errors import CorruptReftable

_UPDATE_INDEX_MAX = (1 << 64) - 1
_VARINT_MAX = (1 << 64) - 1


class RefRecord(NamedTuple):
    """A reference in one table; with neither value nor target, that it was deleted.

    :ivar value: the object name, binary.
    :ivar peeled: if that is a tag, the name of the object that it leads to in the end.
    :ivar target: of a symbolic reference, the other reference.
    """

    name: bytes
    update_index: int
    value: bytes | None = None
    peeled: bytes | None = None
    target: bytes | None = None

    @property
    def is_deletion(self) -> bool:
        """Whether the record hides those of older tables."""
        return self.value is None and self.target is None


class LogChange(NamedTuple):
    """What a reflog entry says.

    :ivar zone: offset from UTC as git writes it, as a number: 200 for +0200. (The format document
        says minutes; git writes and reads these.)
    :ivar message: with its newline, as git writes it, or empty.
    """

    old: bytes
    new: bytes
    name: bytes
    email: bytes
    seconds: int
    zone: int
    message: bytes


class LogRecord(NamedTuple):
    """A reflog entry in one table; without a change, that the entry was deleted.

    An entry from and to null object names says only that the reference has a reflog.
    """

    name: bytes
    update_index: int
    change: LogChange | None

    @property
    def key(self) -> bytes:
        """Sorts the entries of one reference newest first."""
        return log_key(self.name, self.update_index)


class IndexRecord(NamedTuple):
    """Of a block: the last key in it, and where it starts in the file, in bytes."""

    last_key: bytes
    position: int


class ObjectRecord(NamedTuple):
    """Where references to an object are: positions of reference blocks, rising.

    No positions at all means that there were too many to list: every block is to be searched.
    """

    prefix: bytes
    positions: tuple[int, ...]


def log_key(name: bytes, update_index: int) -> bytes:
    """The key of a reflog entry in its section."""
    return name + b"\0" + (_UPDATE_INDEX_MAX - update_index).to_bytes(8, "big")


@lru_cache(maxsize=4096)
def encode_varint(value: int) -> bytes:
    """A number as in git's packs' offsets: seven bits a byte, most significant first."""
    if value < 128:
        return bytes((value,))
    out = bytearray((value & 127,))
    while value := value >> 7:
        value -= 1
        out.append(128 | (value & 127))
    out.reverse()
    return bytes(out)


def decode_varint(data: bytes, position: int) -> tuple[int, int]:
    """The number at `position`, and the position after it.

    Raises IndexError at the end of `data`, CorruptReftable beyond 64 bits.
    """
    byte = data[position]
    value = byte & 127
    while byte & 128:
        position += 1
        byte = data[position]
        value = ((value + 1) << 7) | (byte & 127)
        if value > _VARINT_MAX:
            raise CorruptReftable("a number has more than 64 bits")
    return value, position + 1


def encode_ref(record: RefRecord, min_update_index: int) -> tuple[int, bytes]:
    """The type bits and the value of a reference."""
    delta = encode_varint(record.update_index - min_update_index)
    if record.target is not None:
        return 3, delta + encode_varint(len(record.target)) + record.target
    if record.value is None:
        return 0, delta
    if record.peeled is None:
        return 1, delta + record.value
    return 2, delta + record.value + record.peeled


def decode_ref(
    key: bytes, kind: int, data: bytes, position: int, size: int, min_update_index: int
) -> tuple[RefRecord, int]:
    """The reference with this key, whose value is at `position`, and the position after it.

    `size` is that of object names, in bytes.
    """
    delta, position = decode_varint(data, position)
    update_index = min_update_index + delta
    if kind == 1:
        end = position + size
        return RefRecord(key, update_index, data[position:end]), end
    if kind == 2:
        middle, end = position + size, position + 2 * size
        return RefRecord(key, update_index, data[position:middle], data[middle:end]), end
    if kind == 3:
        length, position = decode_varint(data, position)
        end = position + length
        return RefRecord(key, update_index, target=data[position:end]), end
    if kind != 0:
        raise CorruptReftable(f"a reference has the unknown type {kind}")
    return RefRecord(key, update_index), position


def encode_log(record: LogRecord) -> tuple[int, bytes]:
    """The type bits and the value of a reflog entry."""
    change = record.change
    if change is None:
        return 0, b""
    who = _encode_who(change.name, change.email, change.seconds, change.zone)
    message = encode_varint(len(change.message)) + change.message
    return 1, b"".join((change.old, change.new, who, message))


@lru_cache(maxsize=64)
def _encode_who(name: bytes, email: bytes, seconds: int, zone: int) -> bytes:
    texts = b"".join(encode_varint(len(text)) + text for text in (name, email))
    return texts + encode_varint(seconds) + struct.pack(">h", zone)


def decode_log(
    key: bytes, kind: int, data: bytes, position: int, size: int
) -> tuple[LogRecord, int]:
    """The reflog entry with this key, whose value is at `position`, and the position after it."""
    if len(key) < 10 or key[-9]:
        raise CorruptReftable("a reflog entry has a key without a name or an update index")
    name, update_index = key[:-9], _UPDATE_INDEX_MAX - int.from_bytes(key[-8:], "big")
    if kind == 0:
        return LogRecord(name, update_index, None), position
    if kind != 1:
        raise CorruptReftable(f"a reflog entry has the unknown type {kind}")
    old, new = data[position : position + size], data[position + size : position + 2 * size]
    who, position = _decode_text(data, position + 2 * size)
    email, position = _decode_text(data, position)
    seconds, position = decode_varint(data, position)
    zone = int.from_bytes(data[position : position + 2], "big", signed=True)
    message, position = _decode_text(data, position + 2)
    return LogRecord(
        name, update_index, LogChange(old, new, who, email, seconds, zone, message)
    ), position


def _decode_text(data: bytes, position: int) -> tuple[bytes, int]:
    length, position = decode_varint(data, position)
    return data[position : position + length], position + length


def encode_object(record: ObjectRecord) -> tuple[int, bytes]:
    """The type bits (the number of positions, if below eight) and the value of an object."""
    count = len(record.positions)
    fields = [] if 0 < count < 8 else [encode_varint(count)]
    before = 0
    for position in record.positions:
        fields.append(encode_varint(position - before))
        before = position
    return (count if count < 8 else 0), b"".join(fields)


def decode_object(key: bytes, kind: int, data: bytes, position: int) -> tuple[ObjectRecord, int]:
    """The object's entry with this key, whose value is at `position`, and the position after it."""
    count = kind
    if count == 0:
        count, position = decode_varint(data, position)
    if count > len(data) - position:
        raise CorruptReftable("an object has more positions than its block has bytes")
    positions, before = [], 0
    for _ in range(count):
        delta, position = decode_varint(data, position)
        before += delta
        positions.append(before)
    return ObjectRecord(key, tuple(positions)), position

"""Blocks of a reftable: sorted records whose keys share prefixes, with a table of restarts.

A block is: its kind and length (1 + 3 bytes), records, restart offsets (3 bytes each), their
number (2 bytes). Offsets and length count from the block's start; the first block of a file starts
with the file's header. Log blocks are deflated after their length, which is the inflated one.
"""

import zlib
from bisect import bisect_left
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from impl.refs.errors import CorruptReftable
from impl.refs.reftable.records import decode_varint, encode_varint

REF, LOG, OBJECT, INDEX = b"r", b"g", b"o", b"i"
_HEAD_BYTES = 4
_RESTART_INTERVAL = 16
_RESTARTS_MAX = (1 << 16) - 1

Record = TypeVar("Record")
Decoder = Callable[[bytes, int, bytes, int], tuple[Record, int]]
"""From a record's key, type bits, block content and the value's position: the record, and the
position after it."""


class Block(NamedTuple, Generic[Record]):
    """A decoded block: keys, sorted, and their records."""

    kind: bytes
    keys: list[bytes]
    records: list[Record]

    def first_from(self, key: bytes) -> int:
        """The number of the first record whose key is `key` or greater."""
        return bisect_left(self.keys, key)


class BlockWriter:
    """One block in the making."""

    def __init__(self, kind: bytes, limit_bytes: int, lead_bytes: int = 0) -> None:
        """A block of at most `limit_bytes`, the first `lead_bytes` of them the file's header."""
        self._kind = kind
        self._limit = limit_bytes
        self._lead = lead_bytes
        self._parts: list[bytes] = []
        self._size = lead_bytes + _HEAD_BYTES
        self._restarts: list[int] = []
        self.last_key = b""

    @property
    def is_empty(self) -> bool:
        """Whether there is no record yet."""
        return not self._parts

    def add(self, key: bytes, kind: int, value: bytes) -> bool:
        """Append a record, whose key must be the greatest yet; False if it does not fit."""
        shared = 0
        if len(self._parts) % _RESTART_INTERVAL or len(self._restarts) >= _RESTARTS_MAX:
            shared = _shared_bytes(self.last_key, key)
        is_restart = not shared and len(self._restarts) < _RESTARTS_MAX
        suffix = key[shared:]
        record = b"".join(
            (encode_varint(shared), encode_varint(len(suffix) << 3 | kind), suffix, value)
        )
        size = self._size + len(record)
        if size + 3 * (len(self._restarts) + is_restart) + 2 > self._limit:
            return False
        if is_restart:
            self._restarts.append(self._size)
        self._parts.append(record)
        self._size = size
        self.last_key = key
        return True

    def finish(self) -> bytes:
        """The block, without the file's header and without padding."""
        body = b"".join(self._parts)
        body += b"".join(offset.to_bytes(3, "big") for offset in self._restarts)
        body += len(self._restarts).to_bytes(2, "big")
        length = self._lead + _HEAD_BYTES + len(body)
        if self._kind == LOG:
            body = zlib.compress(body, 9)
        return self._kind + length.to_bytes(3, "big") + body


def _shared_bytes(left: bytes, right: bytes) -> int:
    """The length of the longest common prefix."""
    length = min(len(left), len(right))
    difference = int.from_bytes(left[:length], "big") ^ int.from_bytes(right[:length], "big")
    return length - (difference.bit_length() + 7) // 8


def inflate_log_block(data: bytes, lead: int, what: str) -> tuple[bytes, int]:
    """Inflate the log block that `data` starts with, after `lead` bytes of file header.

    Returns the block with its head, and how many bytes of `data` it takes. Never inflates more
    than the block's own length. Raises CorruptReftable.
    """
    start = lead + _HEAD_BYTES
    inflated_bytes = int.from_bytes(data[lead + 1 : start], "big") - start
    if inflated_bytes < 2:
        raise CorruptReftable(f"{what} has a log block that is too short")
    stream = zlib.decompressobj()
    parts, missing, position = [], inflated_bytes, start
    while missing and not stream.eof and position < len(data):
        # In pieces: what is left over after the end is copied, and would be the whole file's rest.
        piece = data[position : position + missing + 64]
        parts.append(_inflate(stream, piece, missing, what))
        missing -= len(parts[-1])
        position += len(piece) - len(stream.unused_data) - len(stream.unconsumed_tail)
    while not stream.eof and position < len(data):
        # The stream's own end (a checksum) may come after the last byte of content.
        if _inflate(stream, data[position : position + 1], 1, what):
            raise CorruptReftable(f"{what} has a log block that is longer than it says")
        position += 1
    if missing or not stream.eof:
        raise CorruptReftable(f"{what} has a log block that is cut off")
    return data[:start] + b"".join(parts), position


def _inflate(stream: "zlib._Decompress", data: bytes, limit: int, what: str) -> bytes:
    try:
        return stream.decompress(data, limit)
    except zlib.error as error:
        raise CorruptReftable(f"{what} has a log block that cannot be inflated: {error}") from error


def decode_block(content: bytes, lead: int, decode: Decoder[Record], what: str) -> Block[Record]:
    """Decode a whole block: `content` is exactly it, inflated, with `lead` bytes in front.

    Checks that keys rise, that restarts are where records with whole keys start, and that nothing
    reaches beyond the end. Raises CorruptReftable; `what` names the table.
    """
    try:
        return _decode_block(content, lead, decode)
    except IndexError as error:
        raise CorruptReftable(f"{what} has a record that reaches beyond its block") from error
    except CorruptReftable as error:
        raise CorruptReftable(f"{what} is damaged: {error}") from error


def _decode_block(content: bytes, lead: int, decode: Decoder[Record]) -> Block[Record]:
    end, restarts = _restarts(content, lead + _HEAD_BYTES)
    keys: list[bytes] = []
    records: list[Record] = []
    whole_keys = set()
    position, key = lead + _HEAD_BYTES, b""
    data = content[:end]
    while position < end:
        start = position
        shared, position = decode_varint(data, position)
        packed, position = decode_varint(data, position)
        middle, position = position, position + (packed >> 3)
        if shared > len(key) or position > end:
            raise CorruptReftable("a key is longer than what it is made of")
        if not shared:
            whole_keys.add(start)
        before, key = key, key[:shared] + data[middle:position]
        if key <= before:
            raise CorruptReftable("the keys of a block are not sorted")
        record, position = decode(key, packed & 7, data, position)
        keys.append(key)
        records.append(record)
    if position != end or not keys:
        raise CorruptReftable("a block does not end with a record")
    if not whole_keys.issuperset(restarts):
        raise CorruptReftable("a restart is not where a whole key is")
    return Block(content[lead : lead + 1], keys, records)


def _restarts(content: bytes, start: int) -> tuple[int, list[int]]:
    """Where the records end, and the offsets of the restarts."""
    count = int.from_bytes(content[-2:], "big")
    end = len(content) - 2 - 3 * count
    if end < start or not count:
        raise CorruptReftable("a block is shorter than its table of restarts")
    table = content[end:-2]
    return end, [int.from_bytes(table[at : at + 3], "big") for at in range(0, 3 * count, 3)]

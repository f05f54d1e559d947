"""One reftable file (the reftable technical document, Documentation/technical/reftable of git)."""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from crashsim.oracles.git.damage import Damage, FormatError, classify
from crashsim.oracles.git.objects import SHA1, SHA256, ObjectFormat
from crashsim.oracles.git.reflog import ReflogEntry
from crashsim.oracles.git.refs import SYMBOLIC

_HEADER_BYTES = {1: 24, 2: 28}
_FOOTER_EXTRA_BYTES = 44
_FORMATS = {b"sha1": SHA1, b"s256": SHA256}
_INFLATED_LIMIT_BYTES = 1 << 24


@dataclass(frozen=True, slots=True)
class RefRecord:
    """A ref in one table.

    :ivar value: an object name in hexadecimal, `ref: <name>`, or None for a deletion.
    """

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A reflog entry in one table; entry None for a deletion."""

    name: str
    update_index: int
    entry: ReflogEntry | None


@dataclass(frozen=True, slots=True)
class Reftable:
    """A whole, self-consistent table."""

    min_update_index: int
    max_update_index: int
    refs: tuple[RefRecord, ...]
    logs: tuple[LogRecord, ...]


@dataclass(frozen=True, slots=True)
class _Header:
    version: int
    block_size: int
    min_update_index: int
    max_update_index: int
    object_format: ObjectFormat

    @property
    def size_bytes(self) -> int:
        return _HEADER_BYTES[self.version]


@dataclass(frozen=True, slots=True)
class _Block:
    """A block's records: `content[start:end]`, keys prefix-compressed against their predecessor."""

    kind: bytes
    content: bytes
    start: int
    end: int


def parse_reftable(content: bytes) -> Reftable | Damage:
    """Read a table: header, footer with its CRC, and every record of every block."""
    try:
        return _parse(content)
    except (FormatError, struct.error, zlib.error) as error:
        return classify(content, str(error))


def _parse(content: bytes) -> Reftable:
    header = _header(content)
    footer_bytes = header.size_bytes + _FOOTER_EXTRA_BYTES
    footer_start = len(content) - footer_bytes
    if footer_start < header.size_bytes and footer_start != 0:
        # A table without any block is its footer after its header.
        raise FormatError("is too small for a reftable")
    footer = content[footer_start:]
    if footer[: header.size_bytes] != content[: header.size_bytes]:
        raise FormatError("has no footer that repeats its header")
    if zlib.crc32(footer[:-4]) != struct.unpack_from(">I", footer, footer_bytes - 4)[0]:
        raise FormatError("has a bad footer CRC")
    refs: list[RefRecord] = []
    logs: list[LogRecord] = []
    for block in _blocks(content, header, footer_start):
        if block.kind == b"r":
            refs.extend(_ref_records(block, header))
        elif block.kind == b"g":
            logs.extend(_log_records(block, header))
    _check_order([record.name.encode("utf-8", "surrogateescape") for record in refs])
    return Reftable(header.min_update_index, header.max_update_index, tuple(refs), tuple(logs))


def _check_order(names: list[bytes]) -> None:
    for left, right in pairwise(names):
        if left >= right:
            raise FormatError("has refs that are not sorted")


def _header(content: bytes) -> _Header:
    if content[:4] != b"REFT" or len(content) < 28:
        raise FormatError("has no reftable header")
    version = content[4]
    if version not in _HEADER_BYTES:
        raise FormatError(f"has the unknown reftable version {version}")
    first, last = struct.unpack_from(">QQ", content, 8)
    object_format = SHA1
    if version == 2:
        if content[24:28] not in _FORMATS:
            raise FormatError("names an unknown hash")
        object_format = _FORMATS[content[24:28]]
    return _Header(version, int.from_bytes(content[5:8], "big"), first, last, object_format)


def _blocks(content: bytes, header: _Header, end: int) -> Iterator[_Block]:
    position = 0
    while position < end:
        begin = position + (header.size_bytes if position == 0 else 0)
        if begin >= end:
            return
        kind = content[begin : begin + 1]
        length = int.from_bytes(content[begin + 1 : begin + 4], "big")
        if kind == b"g":
            block, position = _log_block(content, begin, position, length, end)
            yield block
            continue
        if kind not in (b"r", b"o", b"i"):
            raise FormatError(f"has an unknown block type {kind!r} at byte {begin}")
        if length <= begin - position + 4 or position + length > end:
            raise FormatError(f"has a block at byte {begin} that leaves its file")
        yield _block(kind, content[position : position + length], begin - position)
        position += _full_block_bytes(content, position, length, header.block_size, end)


def _full_block_bytes(content: bytes, position: int, length: int, block: int, end: int) -> int:
    """How far the next block is: blocks are padded with NULs to the block size, or not at all."""
    if block <= length or position + length >= end or content[position + length] != 0:
        return length
    return block


def _log_block(
    content: bytes, begin: int, position: int, length: int, end: int
) -> tuple[_Block, int]:
    """Log blocks are deflated after their type and (inflated) length."""
    lead = begin - position
    inflated_bytes = length - lead - 4
    if not 0 < inflated_bytes <= _INFLATED_LIMIT_BYTES:
        raise FormatError(f"has a log block at byte {begin} of a bad length {length}")
    stream = zlib.decompressobj()
    data = stream.decompress(content[begin + 4 : end], inflated_bytes)
    if not stream.eof:
        data += stream.decompress(stream.unconsumed_tail, 1)
    if not stream.eof or len(data) != inflated_bytes:
        raise FormatError(f"has a log block at byte {begin} that does not inflate to its length")
    whole = content[position : begin + 4] + data
    return _block(b"g", whole, lead), end - len(stream.unused_data)


def _block(kind: bytes, content: bytes, lead: int) -> _Block:
    if len(content) < lead + 6:
        raise FormatError("has a block that is too small")
    restarts = struct.unpack_from(">H", content, len(content) - 2)[0]
    records_end = len(content) - 2 - 3 * restarts
    if records_end < lead + 4:
        raise FormatError("has a block with too many restarts")
    return _Block(kind, content, lead + 4, records_end)


class _Cursor:
    """Reads the fields of a block's records."""

    def __init__(self, block: _Block) -> None:
        self._content = block.content
        self._position = block.start
        self._end = block.end
        self._key = b""

    def more(self) -> bool:
        """Whether there is another record."""
        return self._position < self._end

    def take(self, size_bytes: int) -> bytes:
        """The next `size_bytes`."""
        start = self._position
        self._position += size_bytes
        if self._position > self._end:
            raise FormatError("has a record that leaves its block")
        return self._content[start : self._position]

    def varint(self) -> int:
        """The next variable-length number."""
        value = -1
        while True:
            byte = self.take(1)[0]
            value = ((value + 1) << 7) | (byte & 0x7F)
            if byte < 0x80:
                return value
            if value > 1 << 60:
                raise FormatError("has a number that is too large")

    def string(self) -> str:
        """The next string with its length in front."""
        return self.take(self.varint()).decode("utf-8", "surrogateescape")

    def key(self) -> tuple[bytes, int]:
        """The next record's key and its three type bits."""
        prefix_bytes = self.varint()
        suffix = self.varint()
        if prefix_bytes > len(self._key):
            raise FormatError("has a key that shares more than there is")
        self._key = self._key[:prefix_bytes] + self.take(suffix >> 3)
        return self._key, suffix & 7


def _ref_records(block: _Block, header: _Header) -> Iterator[RefRecord]:
    cursor = _Cursor(block)
    oid_bytes = header.object_format.size_bytes
    while cursor.more():
        key, kind = cursor.key()
        cursor.varint()
        value: str | None = None
        if kind in (1, 2):
            value = cursor.take(oid_bytes).hex()
            cursor.take(oid_bytes * (kind - 1))
        elif kind == 3:
            value = SYMBOLIC + cursor.string()
        elif kind != 0:
            raise FormatError(f"has a ref of the unknown type {kind}")
        yield RefRecord(key.decode("utf-8", "surrogateescape"), value)


def _log_records(block: _Block, header: _Header) -> Iterator[LogRecord]:
    cursor = _Cursor(block)
    while cursor.more():
        key, kind = cursor.key()
        if len(key) < 9 or key[-9] != 0:
            raise FormatError("has a log record with a bad key")
        name = key[:-9].decode("utf-8", "surrogateescape")
        update_index = (1 << 64) - 1 - int.from_bytes(key[-8:], "big")
        if kind not in (0, 1):
            raise FormatError(f"has a log record of the unknown type {kind}")
        entry = _log_entry(cursor, header.object_format.size_bytes) if kind else None
        yield LogRecord(name, update_index, entry)


def _log_entry(cursor: _Cursor, oid_bytes: int) -> ReflogEntry:
    old, new = cursor.take(oid_bytes).hex(), cursor.take(oid_bytes).hex()
    cursor.string()
    cursor.string()
    cursor.varint()
    cursor.take(2)
    return ReflogEntry(old, new, cursor.string().rstrip("\n"))

"""Reading one table: seeking in its sections through their indexes, block by block."""

from collections.abc import Iterator
from typing import Any, TypeVar

from impl.refs.errors import CorruptReftable
from impl.refs.reftable.blocks import (
    INDEX,
    LOG,
    OBJECT,
    REF,
    Block,
    Decoder,
    decode_block,
    inflate_log_block,
)
from impl.refs.reftable.layout import (
    FOOTER_BYTES_MAX,
    Sections,
    decode_footer,
    decode_header,
    footer_bytes,
)
from impl.refs.reftable.records import (
    IndexRecord,
    LogRecord,
    ObjectRecord,
    RefRecord,
    decode_log,
    decode_object,
    decode_ref,
    decode_varint,
    log_key,
)
from impl.refs.reftable.source import Source

Record = TypeVar("Record")
_BLOCKS_KEPT = 64
"""Decoded blocks that a table in memory keeps: at 4 KiB a block, references close together."""


class Table:
    """An open table. Its file never changes, and need not have its name any more.

    Raises CorruptReftable, in every method, for whatever is not as the format says.
    """

    def __init__(self, name: str, source: Source) -> None:
        """Read header and footer. `name` is for messages."""
        self.name = name
        self._source = source
        start = source.read(0, 28)
        self.header = decode_header(start, name)
        end = source.read(max(0, source.size_bytes - FOOTER_BYTES_MAX), source.size_bytes)
        self.sections: Sections = decode_footer(end, self.header, source.size_bytes, name)
        self._end = source.size_bytes - footer_bytes(self.header)
        if self._end < 0:
            raise CorruptReftable(f"{name} is shorter than its header and footer")
        kind = source.read(self.header.size_bytes, self.header.size_bytes + 1)
        self._first_kind = kind if self._end > self.header.size_bytes else b""
        self._blocks: dict[int, tuple[Block[Any], int]] = {}

    @property
    def size_bytes(self) -> int:
        """Length of the file."""
        return self._source.size_bytes

    def close(self) -> None:
        """Release what is held."""
        self._source.close()

    def ref(self, name: bytes) -> RefRecord | None:
        """The record of one reference, which may be a deletion; None if there is none here."""
        for record in self.refs_from(name):
            return record if record.name == name else None
        return None

    def refs_from(self, name: bytes = b"") -> Iterator[RefRecord]:
        """References whose name is `name` or greater, sorted."""
        if self._first_kind == REF:
            yield from self._from(REF, 0, self.sections.ref_index, name, self._decode_ref)

    def logs_of(self, name: bytes) -> Iterator[LogRecord]:
        """The reflog entries of one reference, newest first."""
        for record in self._logs_from(name + b"\0"):
            if record.name != name:
                return
            yield record

    def logs_from(self, name: bytes = b"") -> Iterator[LogRecord]:
        """The reflog entries of references whose name is `name` or greater, sorted."""
        return self._logs_from(name)

    def objects(self) -> Iterator[ObjectRecord]:
        """The object section: which reference blocks name which objects."""
        if self.sections.objects:
            yield from self._from(OBJECT, self.sections.objects, 0, b"", decode_object)

    def _logs_from(self, key: bytes) -> Iterator[LogRecord]:
        start = self.sections.logs
        if start or self._first_kind == LOG:
            yield from self._from(LOG, start, self.sections.log_index, key, self._decode_log)

    def _decode_ref(self, key: bytes, kind: int, data: bytes, at: int) -> tuple[RefRecord, int]:
        header = self.header
        return decode_ref(key, kind, data, at, header.algorithm.size_bytes, header.min_update_index)

    def _decode_log(self, key: bytes, kind: int, data: bytes, at: int) -> tuple[LogRecord, int]:
        return decode_log(key, kind, data, at, self.header.algorithm.size_bytes)

    def _from(
        self, kind: bytes, start: int, index: int, key: bytes, decode: Decoder[Record]
    ) -> Iterator[Record]:
        """Records of a section from `key` on: down its index, then from block to block."""
        position: int | None = start
        if index and key:
            position = self._seek(kind, index, key)
        first = True
        while position is not None:
            block, following = self._block(position, kind, decode)
            begin = block.first_from(key) if first else 0
            first = first and begin == len(block.keys)
            yield from block.records[begin:]
            position = following if self._kind_at(following) == kind else None

    def _seek(self, kind: bytes, index: int, key: bytes) -> int | None:
        """Which block of a section has the first key from `key` on; None if no block has one."""
        position = index
        while True:
            block, following = self._block(position, INDEX, _decode_index)
            number = block.first_from(key)
            if number == len(block.keys):
                # The last level may be of several blocks in a row (git writes up to three).
                if self._kind_at(following) != INDEX:
                    return None
                position = following
                continue
            child = block.records[number].position
            if child >= position:
                raise CorruptReftable(f"{self.name} has an index that does not point backwards")
            child_kind = self._kind_at(child)
            if child_kind == kind:
                return child
            if child_kind != INDEX:
                raise CorruptReftable(
                    f"{self.name} has an index that points to no block of its own"
                )
            position = child

    def _kind_at(self, position: int) -> bytes:
        """The kind of the block at `position`; empty at the end of the last one."""
        if position == 0:
            return self._first_kind
        return self._source.read(position, position + 1) if position < self._end else b""

    def _block(
        self, position: int, kind: bytes, decode: Decoder[Record]
    ) -> tuple[Block[Record], int]:
        """The block at `position`, and where the one after it starts."""
        if position in self._blocks:
            return self._blocks[position]
        content, lead, following = self._content(position, kind)
        found = decode_block(content, lead, decode, self.name), following
        if self._source.is_memory:
            if len(self._blocks) >= _BLOCKS_KEPT:
                del self._blocks[next(iter(self._blocks))]
            self._blocks[position] = found
        return found

    def _content(self, position: int, kind: bytes) -> tuple[bytes, int, int]:
        """A block's inflated bytes, how many of them are the file's header, and what follows."""
        lead = self.header.size_bytes if position == 0 else 0
        size = self.header.block_size_bytes
        data = self._source.read(position, min(position + (size or 4096), self._end))
        length = int.from_bytes(data[lead + 1 : lead + 4], "big")
        if data[lead : lead + 1] != kind or len(data) < lead + 4:
            raise CorruptReftable(f"{self.name} has no '{kind.decode()}' block at byte {position}")
        if kind == LOG:
            if len(data) < length:
                data = self._source.read(position, min(position + length + 64, self._end))
            content, taken = inflate_log_block(data, lead, self.name)
            return content, lead, position + taken
        if length > len(data):
            data = self._source.read(position, min(position + length, self._end))
        if not lead + 6 <= length <= len(data):
            raise CorruptReftable(f"{self.name} has a block of a bad length at byte {position}")
        # Padding is of zeros, and no block's kind is one: so unpadded tables are told apart.
        is_padded = length < size and not any(data[length : length + 1])
        return data[:length], lead, position + (size if is_padded else length)


def _decode_index(key: bytes, kind: int, data: bytes, at: int) -> tuple[IndexRecord, int]:
    position, at = decode_varint(data, at)
    return IndexRecord(key, position), at


def check_table(table: Table) -> None:
    """Read all of a table, and compare its sections with one another. Raises CorruptReftable."""
    header = table.header
    for record in table.refs_from():
        if not header.min_update_index <= record.update_index <= header.max_update_index:
            raise CorruptReftable(f"{table.name} has a reference of an update outside of its range")
    _check_sorted(table.name, (record.name for record in table.refs_from()))
    _check_sorted(table.name, (log_key(log.name, log.update_index) for log in table.logs_from()))
    for found in table.objects():
        if any(position >= table.size_bytes for position in found.positions):
            raise CorruptReftable(f"{table.name} has an object whose references are beyond its end")


def _check_sorted(name: str, keys: Iterator[bytes]) -> None:
    before = b""
    for key in keys:
        if key <= before:
            raise CorruptReftable(f"{name} has records that are not sorted")
        before = key

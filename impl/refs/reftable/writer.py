"""Writing one table: sections of sorted blocks, an index over each section that needs one."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from impl.refs.errors import UnsupportedUpdate
from impl.refs.reftable.blocks import INDEX, LOG, OBJECT, REF, BlockWriter
from impl.refs.reftable.layout import (
    Header,
    Sections,
    encode_footer,
    encode_header,
)
from impl.refs.reftable.records import (
    IndexRecord,
    LogRecord,
    ObjectRecord,
    RefRecord,
    encode_log,
    encode_object,
    encode_ref,
    encode_varint,
)

BLOCK_BYTES = 4096
_UNINDEXED_BLOCKS_MAX = 3
"""A section of more blocks has an index."""
_OBJECT_ID_BYTES_MIN, _OBJECT_ID_BYTES_MAX = 2, 31


class _Entry(NamedTuple):
    key: bytes
    kind: int
    value: bytes


class _Section(NamedTuple):
    """A section as written: the last key and the position of each block."""

    blocks: Sequence[IndexRecord]
    index_position: int

    @property
    def start(self) -> int:
        """Where it starts; 0 also if it is empty."""
        return self.blocks[0].position if self.blocks else 0


class TableWriter:
    """A table in the making, in memory."""

    def __init__(self, header: Header) -> None:
        """A table without records."""
        self._header = header
        self._content = bytearray()
        self._padding = 0

    def section(self, kind: bytes, entries: Iterable[_Entry]) -> _Section:
        """Write the blocks of a section, and its index if it needs one."""
        blocks = self._blocks(kind, entries)
        level, index = blocks, 0
        while len(level) > (_UNINDEXED_BLOCKS_MAX if not index else 1):
            level = self._blocks(INDEX, [_index_entry(record) for record in level])
            index = level[0].position
        return _Section(blocks, index)

    def _blocks(self, kind: bytes, entries: Iterable[_Entry]) -> list[IndexRecord]:
        written: list[IndexRecord] = []
        block = self._new_block(kind)
        for entry in entries:
            if block.add(*entry):
                continue
            if not block.is_empty:
                written.append(self._flush(kind, block))
                block = self._new_block(kind)
            if not block.add(*entry):
                raise UnsupportedUpdate(
                    f"a record of {len(entry.key) + len(entry.value)} bytes does not fit into a "
                    f"reftable block of {self._header.block_size_bytes}: use a shorter name"
                )
        if not block.is_empty:
            written.append(self._flush(kind, block))
        return written

    def _new_block(self, kind: bytes) -> BlockWriter:
        lead = 0 if self._content else self._header.size_bytes
        return BlockWriter(kind, self._header.block_size_bytes, lead)

    def _flush(self, kind: bytes, block: BlockWriter) -> IndexRecord:
        self._content += bytes(self._padding)
        position = len(self._content)
        if not position:
            self._content += encode_header(self._header)
        self._content += block.finish()
        self._padding = 0
        if kind != LOG:
            self._padding = self._header.block_size_bytes - (len(self._content) - position)
        return IndexRecord(block.last_key, position)

    def drop_padding(self) -> None:
        """Have the next block follow at once, as git has its first log block."""
        self._padding = 0

    def finish(self, sections: Sections) -> bytes:
        """The whole file. The last block is not padded."""
        if not self._content:
            self._content += encode_header(self._header)
        return bytes(self._content) + encode_footer(self._header, sections)


def encode_table(header: Header, refs: Sequence[RefRecord], logs: Sequence[LogRecord]) -> bytes:
    """The file of a table. References sorted by name, logs by key (`LogRecord.key`).

    Raises UnsupportedUpdate for a name or message that does not fit into a block.
    """
    writer = TableWriter(header)
    first = header.min_update_index
    ref_section = writer.section(
        REF, (_Entry(record.name, *encode_ref(record, first)) for record in refs)
    )
    entries: list[_Entry] = []
    id_bytes = 0
    if ref_section.index_position:
        entries, id_bytes = _object_entries(refs, ref_section.blocks)
    object_section = writer.section(OBJECT, entries)
    writer.drop_padding()
    log_section = writer.section(LOG, (_Entry(log.key, *encode_log(log)) for log in logs))
    return writer.finish(
        Sections(
            ref_section.index_position,
            object_section.start,
            id_bytes if entries else 0,
            object_section.index_position,
            log_section.start,
            log_section.index_position,
        )
    )


def _index_entry(record: IndexRecord) -> _Entry:
    return _Entry(record.last_key, 0, encode_varint(record.position))


def _object_entries(
    refs: Sequence[RefRecord], blocks: Sequence[IndexRecord]
) -> tuple[list[_Entry], int]:
    """The object section's entries, sorted, and how many bytes of each name they have; none where
    that does not fit into the footer's five bits, which no hash function makes happen."""
    where: dict[bytes, list[int]] = {}
    number = 0
    for record in refs:
        while record.name > blocks[number].last_key:
            number += 1
        position = blocks[number].position
        for name in (record.value, record.peeled):
            positions = where.setdefault(name, []) if name is not None else []
            if name is not None and (not positions or positions[-1] != position):
                positions.append(position)
    names = sorted(where)
    length = _distinguishing_bytes(names)
    if length > _OBJECT_ID_BYTES_MAX:
        return [], 0
    entries = []
    for name in names:
        kind, value = encode_object(ObjectRecord(name[:length], tuple(where[name])))
        if len(value) > BLOCK_BYTES // 2:
            # Too many to list; readers then search every block.
            kind, value = encode_object(ObjectRecord(name[:length], ()))
        entries.append(_Entry(name[:length], kind, value))
    return entries, length


def _distinguishing_bytes(names: Sequence[bytes]) -> int:
    """The shortest length at which the sorted names differ."""
    length = _OBJECT_ID_BYTES_MIN
    for left, right in pairwise(names):
        while left[:length] == right[:length]:
            length += 1
    return length

"""Which tables are merged, and what of their records is left."""

import pytest

from impl.objects.hashes import SHA1
from impl.refs.reftable.compaction import merge_tables, tables_to_merge, weight
from impl.refs.reftable.layout import Header
from impl.refs.reftable.records import LogChange, LogRecord, RefRecord
from impl.refs.reftable.source import MemorySource
from impl.refs.reftable.table import Table
from impl.refs.reftable.writer import encode_table

VALUE = bytes(range(20))
CHANGE = LogChange(bytes(20), VALUE, b"n", b"e", 1, 0, b"")


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ([], []),
        ([5], []),
        ([64, 32, 16, 8, 4, 2, 1], []),
        ([100, 1], []),
        ([1, 1], [0, 1]),
        ([2, 1], []),
        ([64, 32, 16, 8, 4, 3, 1], [0, 1, 2, 3, 4, 5]),
        ([512, 64, 17, 16, 9, 9, 9, 16, 2, 16], [1, 2, 3, 4, 5, 6, 7, 8, 9]),
        ([100, 10, 10, 1], [1, 2]),
        ([1000, 10, 1, 1], [2, 3]),
    ],
)
def test_choice(sizes: list[int], expected: list[int]) -> None:
    assert list(tables_to_merge(sizes)) == expected


def test_choice_restores_the_sequence() -> None:
    sizes: list[int] = []
    for _ in range(500):
        sizes.append(10)
        chosen = tables_to_merge(sizes)
        if chosen:
            sizes[chosen.start : chosen.stop] = [sum(sizes[chosen.start : chosen.stop])]
        assert not tables_to_merge(sizes)
    assert len(sizes) <= 10


def table(index: int, refs: list[RefRecord], logs: list[LogRecord] | None = None) -> Table:
    content = encode_table(Header(4096, index, index, SHA1), refs, logs or [])
    return Table(f"table-{index}", MemorySource(content))


def merged(*tables: Table, is_bottom: bool) -> Table | None:
    header, content = merge_tables(tables, is_bottom=is_bottom)
    assert header.min_update_index == tables[0].header.min_update_index
    assert header.max_update_index == tables[-1].header.max_update_index
    return None if content is None else Table("merged", MemorySource(content))


OLD = table(1, [RefRecord(b"a", 1, VALUE), RefRecord(b"b", 1, VALUE)], [LogRecord(b"a", 1, CHANGE)])
NEW = table(2, [RefRecord(b"a", 2), RefRecord(b"c", 2, target=b"b")], [LogRecord(b"a", 1, None)])


def test_newer_records_win_and_deletions_hide_what_is_below() -> None:
    result = merged(OLD, NEW, is_bottom=False)
    assert result is not None
    assert list(result.refs_from()) == [
        RefRecord(b"a", 2),
        RefRecord(b"b", 1, VALUE),
        RefRecord(b"c", 2, target=b"b"),
    ]
    assert list(result.logs_from()) == [LogRecord(b"a", 1, None)]


def test_at_the_bottom_deletions_go() -> None:
    result = merged(OLD, NEW, is_bottom=True)
    assert result is not None
    assert [record.name for record in result.refs_from()] == [b"b", b"c"]
    assert list(result.logs_from()) == []


def test_nothing_left_is_no_table() -> None:
    gone = table(2, [RefRecord(b"a", 2), RefRecord(b"b", 2)], [LogRecord(b"a", 1, None)])
    assert merged(OLD, gone, is_bottom=True) is None


def test_weight_is_without_the_constant_part() -> None:
    assert weight(OLD) == OLD.size_bytes - 23

"""Damaged reftables: a clear error or the same answer, in bounded time and memory."""

import struct
import time
import tracemalloc
import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from impl.objects.hashes import SHA1, SHA256
from impl.refs.errors import CorruptReftable, CorruptTableList
from impl.refs.reftable.layout import Header, Sections, encode_footer, encode_header
from impl.refs.reftable.source import MemorySource
from impl.refs.reftable.stack import parse_table_list
from impl.refs.reftable.table import Table, check_table
from impl.refs.reftable.writer import encode_table
from tests.support.refs_repository import sample_records

Everything = tuple[object, ...]


def table_content(count: int, size_bytes: int) -> bytes:
    algorithm = SHA1 if size_bytes == 20 else SHA256
    return encode_table(Header(512, 7, 7, algorithm), *sample_records(count, size_bytes))


SAMPLES = tuple(table_content(count, size) for count in (1, 40, 400) for size in (20, 32))


def read_all(content: bytes) -> Everything:
    """Everything that can be read from a table, by scans and by seeks."""
    table = Table("table", MemorySource(content))
    refs, logs = tuple(table.refs_from()), tuple(table.logs_from())
    check_table(table)
    seeks = tuple(table.ref(b"refs/heads/b%06d" % number) for number in (0, 7, 39, 1000))
    return refs, logs, seeks, tuple(table.logs_of(b"refs/heads/b000005"))


def ends_well(content: bytes) -> None:
    started = time.process_time()
    with suppress(CorruptReftable):
        read_all(content)
    assert time.process_time() - started < 5


@settings(max_examples=400)
@given(st.sampled_from(SAMPLES), st.data())
def test_a_flipped_bit(content: bytes, data: st.DataObject) -> None:
    damaged = bytearray(content)
    damaged[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    ends_well(bytes(damaged))


@settings(max_examples=400)
@given(st.sampled_from(SAMPLES), st.data())
def test_a_range_that_was_lost(content: bytes, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(content) - 1))
    end = data.draw(st.integers(start + 1, len(content)))
    filler = data.draw(st.sampled_from([b"\0", b"\xff", b"r", b"i", b"g"]))
    damaged = content[:start] + filler * (end - start) + content[end:]
    ends_well(damaged)
    ends_well(content[:start] + content[end:])


@pytest.mark.parametrize("content", SAMPLES, ids=len)
def test_every_truncation_is_noticed(content: bytes) -> None:
    for length in range(0, len(content), max(1, len(content) // 500)):
        with pytest.raises(CorruptReftable):
            read_all(content[:length])


@pytest.mark.parametrize("content", SAMPLES, ids=len)
def test_zeros_are_noticed(content: bytes) -> None:
    with pytest.raises(CorruptReftable, match="header"):
        read_all(bytes(len(content)))


@pytest.mark.parametrize("content", SAMPLES, ids=len)
def test_every_byte_of_header_and_footer_is_checked(content: bytes) -> None:
    size = 24 if content[4] == 1 else 28
    for position in (*range(size), *range(len(content) - size - 44, len(content))):
        damaged = bytearray(content)
        damaged[position] ^= 0x15
        with pytest.raises(CorruptReftable):
            read_all(bytes(damaged))


@given(st.binary(max_size=300))
def test_any_blocks_between_good_header_and_footer(middle: bytes) -> None:
    header = Header(512, 1, 1, SHA1)
    content = encode_header(header) + middle
    for sections in (Sections(), Sections(ref_index=24, objects=24, object_id_bytes=2, logs=24)):
        if max(sections) <= len(content):
            ends_well(content + encode_footer(header, sections))


def log_table(body: bytes, length: int) -> bytes:
    header = Header(4096, 1, 1, SHA1)
    block = b"g" + length.to_bytes(3, "big") + body
    return encode_header(header) + block + encode_footer(header, Sections())


def test_a_bomb_is_not_inflated() -> None:
    content = log_table(zlib.compress(bytes(200 << 20), 9), 1000)
    tracemalloc.start()
    with pytest.raises(CorruptReftable, match="longer than it says"):
        read_all(content)
    assert tracemalloc.get_traced_memory()[1] < 4 << 20
    tracemalloc.stop()


def test_an_index_that_points_to_itself_ends() -> None:
    refs, _ = sample_records(400)
    content = bytearray(encode_table(Header(512, 7, 7, SHA1), refs, []))
    table = Table("table", MemorySource(bytes(content)))
    index = table.sections.ref_index
    first = struct.unpack_from(">Q", content, len(content) - 68 + 24)[0]
    assert first == index
    block, _ = table._content(index, b"i")[:2]
    looped = block.replace(b"\0", b"\x01", 0)
    assert len(looped) == len(block)
    # The last child's position, a varint before the restart table, becomes the index's own.
    child, own = _varint(table.sections.ref_index - 512), _varint(index)
    assert len(child) == len(own)
    at = content.find(child, index)
    if at < 0:
        pytest.skip("the last child is elsewhere")
    content[at : at + len(own)] = own
    with pytest.raises(CorruptReftable, match="backwards"):
        list(Table("table", MemorySource(bytes(content))).refs_from(b"refs/heads/b000399"))


def _varint(value: int) -> bytes:
    from impl.refs.reftable.records import encode_varint

    return encode_varint(value)


@pytest.mark.parametrize(
    "content",
    [
        *(b"\0" * 40, b"0x1-0x1-a.ref\n\n", b"../../config\n", b"a/b.ref\n", b".ref\n", b"0x1\n"),
        *(b"0x1-0x1-a.ref\n0x1-0x1-a.ref\n", b"0x1-0x1-a.ref\n0x2-0x", b"\xff.ref\n"),
    ],
)
def test_lists_that_are_none(content: bytes) -> None:
    with pytest.raises(CorruptTableList):
        parse_table_list(content, "tables.list")


@given(st.binary(max_size=200))
def test_any_list(content: bytes) -> None:
    names: list[str] = []
    with suppress(CorruptTableList):
        names = parse_table_list(content, "tables.list")
    assert all("/" not in name and not name.startswith(".") for name in names)

"""Reftables: what is written is read, here and by the oracle; git's are written alike."""

import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crashsim.oracles.git.reftable_table import Reftable, parse_reftable
from impl.objects.hashes import SHA1, SHA256, HashAlgorithm
from impl.refs.reftable.layout import Header
from impl.refs.reftable.records import (
    LogChange,
    LogRecord,
    RefRecord,
    decode_varint,
    encode_varint,
)
from impl.refs.reftable.source import MemorySource
from impl.refs.reftable.table import Table, check_table
from impl.refs.reftable.writer import encode_table
from tests.support.refs_repository import ALGORITHMS, sample_records

GIT_TABLES = Path(__file__).parents[2] / "data" / "oracle" / "reftable.tar.gz"
INDEX = 12


def open_table(content: bytes) -> Table:
    return Table("table", MemorySource(content))


def names() -> st.SearchStrategy[bytes]:
    """Names that share prefixes, as references' do."""
    parts = st.sampled_from([b"refs", b"heads", b"a", b"ab", b"abc", b"\xff", b"b" * 60])
    return st.lists(parts, min_size=1, max_size=5).map(b"/".join)


@st.composite
def tables(draw: st.DrawFn) -> tuple[HashAlgorithm, list[RefRecord], list[LogRecord]]:
    algorithm = draw(st.sampled_from(ALGORITHMS))
    oid = st.binary(min_size=algorithm.size_bytes, max_size=algorithm.size_bytes)
    index = st.integers(1, INDEX)
    refs = draw(
        st.lists(
            st.one_of(
                st.builds(RefRecord, names(), index, oid, st.none() | oid, st.none()),
                st.builds(RefRecord, names(), index, st.none(), st.none(), st.none() | names()),
            ),
            max_size=200,
            unique_by=lambda record: record.name,
        )
    )
    text = st.binary(max_size=20)
    seconds, zone = st.integers(0, 2**40), st.integers(-1400, 1400)
    change = st.builds(LogChange, oid, oid, text, text, seconds, zone, text)
    log = st.builds(LogRecord, names(), index, st.none() | change)
    logs = draw(st.lists(log, max_size=100, unique_by=lambda record: record.key))
    return (
        algorithm,
        sorted(refs, key=lambda record: record.name),
        sorted(logs, key=lambda record: record.key),
    )


@given(tables(), st.sampled_from([512, 4096]))
def test_what_is_written_is_read(
    sample: tuple[HashAlgorithm, list[RefRecord], list[LogRecord]], block_bytes: int
) -> None:
    algorithm, refs, logs = sample
    content = encode_table(Header(block_bytes, 1, INDEX, algorithm), refs, logs)
    table = open_table(content)
    check_table(table)
    assert list(table.refs_from()) == refs
    assert list(table.logs_from()) == logs
    for record in refs:
        assert table.ref(record.name) == record
        assert list(table.refs_from(record.name + b"\0")) == [
            other for other in refs if other.name > record.name
        ]
    for name in {log.name for log in logs}:
        assert list(table.logs_of(name)) == [log for log in logs if log.name == name]
    other = parse_reftable(content)
    assert isinstance(other, Reftable)
    assert [one.name.encode("utf-8", "surrogateescape") for one in other.refs] == [
        one.name for one in refs
    ]
    assert [one.update_index for one in other.logs] == [one.update_index for one in logs]


@pytest.mark.parametrize("algorithm", ALGORITHMS, ids=lambda algorithm: algorithm.name)
@pytest.mark.parametrize("count", [1, 300, 20_000])
def test_indexes_of_every_depth(algorithm: HashAlgorithm, count: int) -> None:
    refs, logs = sample_records(count, algorithm.size_bytes)
    table = open_table(encode_table(Header(512, 7, 7, algorithm), refs, logs))
    check_table(table)
    assert bool(table.sections.ref_index) is (count > 1)
    for number in range(0, count, max(1, count // 50)):
        assert table.ref(refs[number].name) == refs[number]
        assert list(table.logs_of(refs[number].name)) == [logs[number]]
        assert table.ref(refs[number].name + b"x") is None
    assert table.ref(b"refs/heads/zzz") is None
    assert list(table.refs_from(b"z")) == []
    expected = {value for one in refs for value in (one.value, one.peeled) if value is not None}
    length = table.sections.object_id_bytes
    assert [one.prefix for one in table.objects()] == sorted(
        {value[:length] for value in expected if count > 1}
    )


def test_names_that_differ_late_have_no_object_section() -> None:
    refs = [RefRecord(b"refs/%04d" % n, 7, bytes(30) + n.to_bytes(2, "big")) for n in range(600)]
    table = open_table(encode_table(Header(512, 7, 7, SHA256), refs, []))
    assert table.sections.ref_index
    assert (table.sections.objects, table.sections.object_id_bytes) == (0, 0)
    check_table(table)


def test_the_object_section_names_the_blocks() -> None:
    refs, _ = sample_records(2_000)
    table = open_table(encode_table(Header(512, 7, 7, SHA1), refs, []))
    first = next(one for one in refs if one.value is not None and one.peeled is None)
    assert first.value is not None
    found = next(one for one in table.objects() if first.value.startswith(one.prefix))
    block, _ = table._block(found.positions[0], b"r", table._decode_ref)
    assert first in block.records


def git_tables() -> Iterator[tuple[str, bytes]]:
    with tarfile.open(GIT_TABLES) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".ref") else None
            if file is not None:
                yield member.name, file.read()


def test_git_writes_the_same_bytes() -> None:
    versions = set()
    for name, content in git_tables():
        table = open_table(content)
        check_table(table)
        again = encode_table(table.header, list(table.refs_from()), list(table.logs_from()))
        assert again == content, name
        versions.add((table.header.version, table.header.algorithm))
    assert versions == {(1, SHA1), (2, SHA256)}


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_varints(value: int, rest: bytes) -> None:
    encoded = encode_varint(value)
    assert decode_varint(rest + encoded + rest, len(rest)) == (value, len(rest) + len(encoded))

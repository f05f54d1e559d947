"""The index' bytes, there and back, and damaged in every way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.errors import CorruptIndex
from impl.index_entry import IndexEntry, StatData
from impl.index_format import format_index, parse_index
from impl.index_trees import CachedTree
from impl.objects.hashes import SHA1, SHA256, HashAlgorithm

words = st.integers(0, 2**32 - 1)
stats = st.builds(StatData, *(words for _ in StatData._fields))
paths = st.lists(
    st.binary(min_size=1, max_size=6).filter(lambda part: not {0, 47} & set(part)),
    min_size=1,
    max_size=3,
).map(b"/".join)
modes = st.sampled_from((0o100644, 0o100755, 0o120000, 0o160000))


@st.composite
def indexes(draw: st.DrawFn) -> tuple[HashAlgorithm, list[IndexEntry]]:
    algorithm = draw(st.sampled_from((SHA1, SHA256)))
    names = st.binary(min_size=algorithm.size_bytes, max_size=algorithm.size_bytes)
    entries = draw(
        st.lists(
            st.builds(
                IndexEntry,
                paths,
                modes,
                names.map(bytes.hex),
                stats,
                st.integers(0, 3),
                st.booleans(),
                st.booleans(),
                st.booleans(),
            ),
            max_size=8,
            unique_by=lambda entry: entry.key,
        )
    )
    return algorithm, sorted(entries, key=lambda entry: entry.key)


@given(indexes(), st.sampled_from((2, 4)), st.booleans())
def test_what_is_written_reads_back(
    index: tuple[HashAlgorithm, list[IndexEntry]], version: int, skip_hash: bool
) -> None:
    algorithm, entries = index
    data = format_index(
        entries, algorithm, version=version, resolve_undo=b"undo", skip_hash=skip_hash
    )

    parsed = parse_index(data, algorithm, "index", skip_hash=skip_hash)

    assert parsed.entries == entries
    assert parsed.resolve_undo == b"undo"
    extended = any(entry.skip_worktree or entry.intent_to_add for entry in entries)
    assert parsed.version == (3 if version == 2 and extended else version)
    assert any(data[-algorithm.size_bytes :]) is not skip_hash


@given(indexes(), st.sampled_from((2, 4)), st.data())
def test_a_changed_byte_is_noticed(
    index: tuple[HashAlgorithm, list[IndexEntry]], version: int, data: st.DataObject
) -> None:
    algorithm, entries = index
    content = bytearray(format_index(entries, algorithm, version=version))
    content[data.draw(st.integers(0, len(content) - 1))] ^= data.draw(st.integers(1, 255))

    with pytest.raises(CorruptIndex):
        parse_index(bytes(content), algorithm, "index")


@given(indexes(), st.sampled_from((2, 4)), st.data())
def test_without_a_checksum_no_damage_makes_the_parser_fail_otherwise(
    index: tuple[HashAlgorithm, list[IndexEntry]], version: int, data: st.DataObject
) -> None:
    algorithm, entries = index
    trees = CachedTree(len(entries), algorithm.null)
    trees.children[b"d"] = CachedTree()
    content = bytearray(
        format_index(entries, algorithm, version=version, trees=trees, skip_hash=True)
    )
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content) - 1 - algorithm.size_bytes))
        content[position] = data.draw(st.integers(0, 255))

    try:
        parse_index(bytes(content), algorithm, "index", skip_hash=True)
    except CorruptIndex:
        return


@given(indexes(), st.sampled_from((2, 4)), st.data())
def test_a_truncated_index_is_noticed(
    index: tuple[HashAlgorithm, list[IndexEntry]], version: int, data: st.DataObject
) -> None:
    algorithm, entries = index
    content = format_index(entries, algorithm, version=version)

    with pytest.raises(CorruptIndex):
        parse_index(content[: data.draw(st.integers(0, len(content) - 1))], algorithm, "index")


def with_checksum(content: bytes) -> bytes:
    return content + SHA1.new(content).digest()


def header(count: int, version: int = 2) -> bytes:
    return b"DIRC" + version.to_bytes(4, "big") + count.to_bytes(4, "big")


def test_a_huge_count_costs_no_memory() -> None:
    with pytest.raises(CorruptIndex, match="4294967295 entries"):
        parse_index(with_checksum(header(0xFFFFFFFF)), SHA1, "index")


def test_an_unknown_extension_that_must_be_understood_is_refused() -> None:
    with pytest.raises(CorruptIndex, match="sdir"):
        parse_index(with_checksum(header(0) + b"sdir\0\0\0\0"), SHA1, "index")


def test_an_unknown_optional_extension_is_left_out() -> None:
    parsed = parse_index(with_checksum(header(0) + b"XYZW\0\0\0\1x"), SHA1, "index")

    assert parsed.entries == []


def test_entries_out_of_order_are_refused() -> None:
    entries = [IndexEntry(path, 0o100644, "5a" * 20) for path in (b"b", b"a")]

    with pytest.raises(CorruptIndex, match="unordered"):
        parse_index(format_index(entries, SHA1), SHA1, "index")


def test_deeply_nested_cached_trees_are_left_out() -> None:
    one = b"a\x00-1 1\n"
    data = b"\x00-1 1\n" + one * 3000
    content = header(0) + b"TREE" + len(data).to_bytes(4, "big") + data

    assert parse_index(with_checksum(content), SHA1, "index").trees is None


def test_version_5_is_refused() -> None:
    with pytest.raises(CorruptIndex, match="version 5"):
        parse_index(with_checksum(header(0, 5)), SHA1, "index")

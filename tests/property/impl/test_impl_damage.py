"""Damaged index, loose object and configuration: refused, or as it was; never wrong, never a crash.

In the first half nobody knows of the damage: the checksum is as it was. In the second the bytes
are made by someone who can compute checksums, and what they say must still be possible.
"""

import struct
import tracemalloc
import zlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from impl.config_syntax import parse_configuration
from impl.errors import CorruptIndex, CorruptObject, HostilePath, InvalidConfiguration
from impl.index_entry import IndexEntry, StatData
from impl.index_format import ParsedIndex, format_index, parse_index
from impl.index_trees import CachedTree
from impl.objects.hashes import SHA1, SHA256, HashAlgorithm
from impl.objects.loose import deflate, inflate
from impl.paths import check_path
from tests.support.pack_samples import sealed

MOST_BYTES = 64 << 20


def an_index(version: int, algorithm: HashAlgorithm) -> bytes:
    name = "5a" * algorithm.size_bytes
    stat = StatData(1_700_000_000, 1, 1_700_000_000, 2, 3, 4, 5, 6, 7)
    paths = (b"a", b"a.txt", b"directory/file", b"directory/inner/other", b"z" * 300)
    entries = [
        IndexEntry(path, 0o100644, name, stat, skip_worktree=version == 3 and path == b"a")
        for path in paths
    ]
    trees = CachedTree(5, name)
    trees.children[b"directory"] = CachedTree(2, name)
    return format_index(entries, algorithm, version=version, trees=trees)


INDEXES = [(an_index(version, hash_), hash_) for version in (2, 3, 4) for hash_ in (SHA1, SHA256)]
OBJECT = deflate("blob", b"some content " * 40 + bytes(range(256)))
OBJECT_NAME = SHA1.object_name("blob", b"some content " * 40 + bytes(range(256)))
CONFIGURATION = (
    b"[core]\n\tbare = false ; no\n\tfsync = all, -index\n"
    b'[remote "o\\"x"]\n\turl = "a \\t b" \\\n c\n[section.old]\nflag\n'
)


@st.composite
def damaged(draw: st.DrawFn, whole: bytes) -> bytes:
    """What a disk makes of a file: cut off, zeroed from somewhere, bits flipped, or longer."""
    data = bytearray(whole)
    at = draw(st.integers(0, len(data) - 1))
    kind = draw(st.sampled_from(["cut", "zero", "zero to the end", "flip", "byte", "longer"]))
    if kind == "cut":
        del data[at:]
    elif kind == "zero":
        length = draw(st.integers(1, 512))
        data[at : at + length] = bytes(len(data[at : at + length]))
    elif kind == "zero to the end":
        data[at:] = bytes(len(data) - at)
    elif kind == "flip":
        data[at] ^= 1 << draw(st.integers(0, 7))
    elif kind == "byte":
        data[at] = draw(st.integers(0, 255))
    else:
        data += draw(st.binary(min_size=1, max_size=600))
    return bytes(data)


def parsed(data: bytes, algorithm: HashAlgorithm) -> ParsedIndex | None:
    try:
        return parse_index(data, algorithm, "index")
    except CorruptIndex:
        return None


@settings(max_examples=1500)
@given(st.data(), st.sampled_from(INDEXES))
def test_a_damaged_index_is_refused_or_says_what_it_said(
    data: st.DataObject, index: tuple[bytes, HashAlgorithm]
) -> None:
    whole, algorithm = index
    content = data.draw(damaged(whole))
    good = parse_index(whole, algorithm, "index")
    found = parsed(content, algorithm)

    assert (found is None) == (content != whole)
    assert found is None or found.entries == good.entries


@pytest.mark.parametrize("index", INDEXES, ids=lambda index: f"{index[0][7]}-{index[1].name}")
def test_an_index_cut_or_zeroed_at_any_byte(index: tuple[bytes, HashAlgorithm]) -> None:
    whole, algorithm = index
    for length in range(len(whole)):
        assert parsed(whole[:length], algorithm) is None, length
        zeroed = whole[:length] + bytes(len(whole) - length)
        assert zeroed == whole or parsed(zeroed, algorithm) is None, length


@settings(max_examples=1500)
@given(st.data(), st.sampled_from(INDEXES))
def test_an_index_made_to_deceive_is_refused_or_possible(
    data: st.DataObject, index: tuple[bytes, HashAlgorithm]
) -> None:
    whole, algorithm = index
    content = sealed(data.draw(damaged(whole)).ljust(algorithm.size_bytes + 1), algorithm)
    tracemalloc.start()
    try:
        found = parsed(content, algorithm)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()

    assert peak < MOST_BYTES
    if found is not None:
        keys = [entry.key for entry in found.entries if entry.path]
        assert keys == sorted(set(keys))
        assert all(b"\0" not in entry.path for entry in found.entries)
        assert all(entry.mode in MODES for entry in found.entries)


MODES = (0o100644, 0o100755, 0o120000, 0o160000)


@given(st.integers(0, 0xFFFFFFFF))
def test_an_index_that_claims_to_be_huge(count: int) -> None:
    body = struct.pack(">4sII", b"DIRC", 2, count) + bytes(100)
    if count:
        assert parsed(body + SHA1.new(body).digest(), SHA1) is None


@settings(max_examples=1500)
@given(damaged(OBJECT))
def test_a_damaged_object_is_never_content(content: bytes) -> None:
    try:
        kind, body = inflate(content, OBJECT_NAME, SHA1)
    except CorruptObject:
        return
    # Damage that the format does not see, such as flags in zlib's header.
    assert SHA1.object_name(kind, body) == OBJECT_NAME


def test_an_object_that_claims_to_be_huge_costs_nothing() -> None:
    tracemalloc.start()
    try:
        for size in (1 << 31, 1 << 62, 10**40):
            with pytest.raises(CorruptObject):
                inflate(deflated(b"blob %d\0" % size + bytes(1000)), OBJECT_NAME, SHA1)
        with pytest.raises(CorruptObject):
            inflate(deflated(b"blob 3\0" + bytes(100 << 20)), OBJECT_NAME, SHA1)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 2 * (100 << 20) + MOST_BYTES


def deflated(content: bytes) -> bytes:
    return zlib.compress(content, 1)


@settings(max_examples=1500)
@given(st.one_of(damaged(CONFIGURATION), st.binary(max_size=200)))
@example(b'[a]\n\tb = "')
@example(b"[a]\n\tb = \\")
@example(b"\xff[a]")
def test_a_damaged_configuration_is_refused_or_has_names_and_values(content: bytes) -> None:
    try:
        entries = list(parse_configuration(content, "config"))
    except InvalidConfiguration:
        return
    for key, _ in entries:
        section, _, name = key.rpartition(".")
        assert section
        assert name
        assert name == name.lower()


DISGUISES = st.sampled_from(
    [
        *(b"..", b".", b"", b".git", b".GIT", b".giT ", b".git.", b".git . .", b"git~1", b"GIT~1"),
        *(b".git::$INDEX_ALLOCATION", b"git~1:x", b".g\xe2\x80\x8cit", b"\xef\xbb\xbf.git"),
        *(b"a\\.git\\b", b".git\\hooks", b"..\\.git", b"a\0b"),
    ]
)
ORDINARY = st.sampled_from([b"a", b"d", b"x.git", b".gitignore", b"git", b"...", b"\xff"])


@given(st.lists(ORDINARY, max_size=3), DISGUISES, st.lists(ORDINARY, max_size=3))
def test_no_path_leads_out_of_the_working_tree_or_into_the_repository(
    before: list[bytes], hostile: bytes, after: list[bytes]
) -> None:
    with pytest.raises(HostilePath, match="invalid path"):
        check_path(b"/".join([*before, hostile, *after]))


@given(st.lists(ORDINARY, min_size=1, max_size=6))
def test_ordinary_paths_pass(parts: list[bytes]) -> None:
    check_path(b"/".join(parts))

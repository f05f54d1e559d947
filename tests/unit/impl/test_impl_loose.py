"""Loose objects and what is in them, whole and damaged."""

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from impl.errors import CorruptObject, InvalidObject
from impl.objects.hashes import SHA1, SHA256, HashAlgorithm
from impl.objects.loose import deflate, inflate
from impl.objects.model import (
    Commit,
    TreeEntry,
    check_tree,
    format_commit,
    format_tree,
    parse_commit,
    parse_tag,
    parse_tree,
)

NAME = "1" * 40
algorithms = st.sampled_from((SHA1, SHA256))


@given(st.sampled_from(("blob", "tree", "commit", "tag")), st.binary(), algorithms)
def test_an_object_reads_back(type_name: str, content: bytes, algorithm: HashAlgorithm) -> None:
    name = algorithm.object_name(type_name, content)

    assert inflate(deflate(type_name, content), name, algorithm) == (type_name, content)


@given(st.binary(max_size=200), st.data())
def test_any_damage_is_noticed(content: bytes, data: st.DataObject) -> None:
    name = SHA1.object_name("blob", content)
    file = bytearray(deflate("blob", content))
    if data.draw(st.booleans()):
        del file[data.draw(st.integers(0, len(file) - 1)) :]
    else:
        file[data.draw(st.integers(0, len(file) - 1))] ^= data.draw(st.integers(1, 255))

    try:
        found = inflate(bytes(file), name, SHA1)
    except CorruptObject:
        return
    # A few bits of a deflate stream mean nothing: then the content is still right.
    assert found == ("blob", content)


@given(st.binary(max_size=100))
def test_no_bytes_make_inflate_fail_otherwise(file: bytes) -> None:
    for data in (file, zlib.compress(file)):
        with pytest.raises(CorruptObject):
            inflate(data, NAME, SHA1)


@pytest.mark.parametrize(
    "start",
    [b"blob", b"blob 3", b"blob 03\0abc", b"frob 3\0abc", b"blob -1\0", b"blob 4\0abc", b"\0"],
)
def test_a_bad_header_is_refused(start: bytes) -> None:
    with pytest.raises(CorruptObject):
        inflate(zlib.compress(start), NAME, SHA1)


def test_a_header_that_lies_costs_no_memory() -> None:
    for length in (b"9" * 25, b"1000000000000000"):
        with pytest.raises(CorruptObject):
            inflate(zlib.compress(b"blob " + length + b"\0abc"), NAME, SHA1)


def test_no_more_is_inflated_than_announced() -> None:
    bomb = zlib.compress(b"blob 3\0abc" + bytes(1 << 26))

    with pytest.raises(CorruptObject):
        inflate(bomb, NAME, SHA1)


def test_an_empty_file_and_garbage_behind_are_refused() -> None:
    name = SHA1.object_name("blob", b"x")
    for data in (b"", bytes(100), deflate("blob", b"x") + b"y"):
        with pytest.raises(CorruptObject):
            inflate(data, name, SHA1)


def test_whole_content_of_another_object_is_refused() -> None:
    with pytest.raises(CorruptObject, match="another name"):
        inflate(deflate("blob", b"x"), SHA1.object_name("blob", b"y"), SHA1)


def test_trees_are_sorted_as_if_directories_ended_with_a_slash() -> None:
    entries = [
        TreeEntry(0o100644, b"a", NAME),
        TreeEntry(0o100644, b"a-b", NAME),
        TreeEntry(0o100644, b"a.d.x", NAME),
        TreeEntry(0o040000, b"a.d", NAME),
    ]
    backwards = [TreeEntry(0o040000, b"z", NAME), TreeEntry(0o100644, b"z.", NAME)]

    assert parse_tree(format_tree(entries[::-1]), NAME, SHA1) == entries
    assert parse_tree(format_tree(backwards), NAME, SHA1) == backwards[::-1]


@given(st.binary(max_size=120))
def test_no_bytes_make_the_parsers_fail_otherwise(content: bytes) -> None:
    for parse in (parse_tree, parse_commit, parse_tag):
        for data in (content, b"tree " + content, b"object " + content, b"100644 a\0" + content):
            try:
                parse(data, NAME, SHA1)
            except CorruptObject:
                continue


@pytest.mark.parametrize("name", [b"", b"a/b", b"a\0b"])
def test_a_tree_cannot_have_such_names(name: bytes) -> None:
    with pytest.raises(InvalidObject):
        format_tree([TreeEntry(0o100644, name, NAME)])


def test_a_tree_cannot_have_a_name_twice() -> None:
    twice = [TreeEntry(0o100644, b"a", NAME), TreeEntry(0o040000, b"a", NAME)]

    with pytest.raises(InvalidObject):
        format_tree(twice)
    with pytest.raises(CorruptObject, match="duplicate"):
        check_tree(twice, NAME)


def test_commits_keep_what_is_not_understood() -> None:
    content = (
        f"tree {NAME}\nparent {NAME}\nauthor A <a@b> 1 +0000\ncommitter C <c@d> 2 +0100\n"
        "encoding latin-1\ngpgsig x\n y\n\nsubject\n\nbody\n"
    ).encode()

    commit = parse_commit(content, NAME, SHA1)

    assert format_commit(commit) == content
    assert (commit.subject, commit.time, commit.parents) == ("subject", 2, (NAME,))


@pytest.mark.parametrize(
    "identity", [b"A a@b 1 +0000", b"A <a@b>", b"A <a@b> x +0000", b"A\n<a> 1 +0000"]
)
def test_a_malformed_identity_is_not_written(identity: bytes) -> None:
    with pytest.raises(InvalidObject):
        format_commit(Commit(NAME, (), identity, b"A <a@b> 1 +0000", b""))


def test_a_nul_in_a_message_is_not_written() -> None:
    who = b"A <a@b> 1 +0000"

    with pytest.raises(InvalidObject, match="NUL"):
        format_commit(Commit(NAME, (), who, who, b"a\0b"))


def test_names_are_gits() -> None:
    assert SHA1.object_name("blob", b"") == "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
    assert SHA256.object_name("blob", b"").startswith("473a0f4c3be8a93681a267e3b1e9a7dcda1185")

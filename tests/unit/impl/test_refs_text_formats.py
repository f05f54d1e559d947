"""packed-refs, loose references and reflogs: text to values and back; damage."""

import pytest

from impl.objects.hashes import SHA1, SHA256
from impl.refs.errors import CorruptPackedRefs, CorruptReference, CorruptReflog
from impl.refs.files.loose import encode_loose, parse_loose
from impl.refs.files.packed import (
    PackedRef,
    PackedRefs,
    encode_packed_refs,
    parse_packed_refs,
)
from impl.refs.reflog import (
    Identity,
    ReflogEntry,
    clean_message,
    encode_reflog,
    parse_identity,
    parse_reflog,
)
from impl.refs.values import Symbolic

A, B = "a" * 40, "b" * 40
TITLE = b"# pack-refs with: peeled fully-peeled sorted \n"
WHO = Identity(b"Ann", b"a@b", 1_700_000_000, -930)


def test_packed_refs_are_written_as_git_writes_them() -> None:
    refs = {"refs/heads/a": PackedRef(A), "refs/tags/v": PackedRef(B, A)}
    content = encode_packed_refs(PackedRefs(refs, is_peeled=True))
    assert content == TITLE + f"{A} refs/heads/a\n{B} refs/tags/v\n^{A}\n".encode()
    assert parse_packed_refs(content, SHA1, "packed-refs").refs == refs


def test_packed_refs_of_old_writers_have_no_title_and_any_order() -> None:
    content = f"{A} refs/z\n{B} refs/a\n".encode()
    parsed = parse_packed_refs(content, SHA1, "packed-refs")
    assert list(parsed.refs) == ["refs/a", "refs/z"]
    assert not parsed.is_peeled


def test_packed_refs_that_only_claim_to_be_sorted() -> None:
    content = TITLE + f"{A} refs/z\n{B} refs/a\n".encode()
    parsed = parse_packed_refs(content, SHA1, "packed-refs")
    assert list(parsed.names_from("refs/")) == ["refs/a", "refs/z"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (bytes(100), "line 1 .* is cut off"),
        (TITLE[:-5], "line 1"),
        (b"# other\n", "line 1"),
        (TITLE + f"{A} refs/a\n{A[:39]} refs/b\n".encode(), "line 3 .* is not"),
        (TITLE + f"{A} refs/a\n{A} refs/b".encode(), "line 3 .* is cut off"),
        (TITLE + f"^{A}\n".encode(), "line 2"),
        (TITLE + f"{A} refs/a\n^{A}\n^{A}\n".encode(), "line 4"),
        (TITLE + f"{A} refs/a\n{B} refs/a\n".encode(), "twice"),
        (TITLE + f"{A} refs/a\0\n".encode(), "line 2"),
        (TITLE + f"{'A' * 40} refs/a\n".encode(), "line 2"),
    ],
)
def test_damaged_packed_refs(content: bytes, message: str) -> None:
    with pytest.raises(CorruptPackedRefs, match=message):
        parse_packed_refs(content, SHA1, "packed-refs")


def test_packed_refs_of_another_hash() -> None:
    with pytest.raises(CorruptPackedRefs):
        parse_packed_refs(TITLE + f"{A} refs/a\n".encode(), SHA256, "packed-refs")


def test_first_below_needs_a_slash() -> None:
    refs = PackedRefs({"refs/a-b": PackedRef(A), "refs/a/b": PackedRef(A)}, is_peeled=True)
    assert refs.first_below("refs/a") == "refs/a/b"
    assert refs.first_below("refs/a/b") is None


@pytest.mark.parametrize("value", [A, Symbolic("refs/heads/x"), Symbolic("HEAD")])
def test_loose_references(value: str | Symbolic) -> None:
    assert parse_loose(encode_loose(value), "refs/a", SHA1) == value


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\n", bytes(41), A[:39].encode(), b"ref: ", b"ref: ../config", b"ref: refs/../x"),
        *(b"ref: refs/heads/a\0b", f"{A} {B}\n".encode(), A.upper().encode(), b"\xff" * 40),
    ],
)
def test_damaged_loose_references(content: bytes) -> None:
    with pytest.raises(CorruptReference, match="refs/a"):
        parse_loose(content, "refs/a", SHA1)


def test_reflogs() -> None:
    entries = [ReflogEntry("0" * 40, A, WHO, b"first"), ReflogEntry(A, B, WHO, b"")]
    content = encode_reflog(entries)
    assert content.startswith(f"{'0' * 40} {A} Ann <a@b> 1700000000 -0930\tfirst\n".encode())
    assert parse_reflog(content, SHA1, "logs/HEAD") == entries
    assert parse_reflog(b"", SHA1, "logs/HEAD") == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda line: line[:-1], "line 2 .* cut off"),
        (lambda line: line + bytes(7), "line 3 .* cut off"),
        (lambda line: bytes(len(line) - 1) + b"\n", "line 2 .* is not"),
        (lambda line: line.replace(b"<", b"", 1), "line 2 .* is not"),
        (lambda line: line.replace(b" +", b" ", 1), "line 2 .* is not"),
        (lambda line: line[1:], "line 2 .* is not"),
    ],
)
def test_damaged_reflogs(change: object, message: str) -> None:
    line = f"{A} {B} Ann <a@b> 1700000000 +0000\tm\n".encode()
    assert callable(change)
    with pytest.raises(CorruptReflog, match=message):
        parse_reflog(line + change(line), SHA1, "logs/HEAD")


def test_messages_become_one_line() -> None:
    assert clean_message("  a\n\n b\tc \udcff") == b"a b c \xff"


@pytest.mark.parametrize("zone", [0, 200, -930, 1345])
def test_identities(zone: int) -> None:
    who = Identity(b"", b"a@b", 0, zone)
    assert parse_identity(bytes(who)) == who
    assert parse_identity(bytes(who) + b" ") is None

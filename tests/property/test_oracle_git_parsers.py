"""Parsers of the git oracle against git itself, or against their own inverse."""

import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crashsim.oracles.git.config import parse_config
from crashsim.oracles.git.damage import Damage, FormatError
from crashsim.oracles.git.delta import apply_delta
from crashsim.oracles.git.ewah import read_ewah
from crashsim.oracles.git.index import parse_index
from crashsim.oracles.git.midx import parse_midx
from crashsim.oracles.git.objects import SHA1, GitObject, ObjectKind, make_object, parse_loose
from crashsim.oracles.git.pack import read_pack
from crashsim.oracles.git.pack_index import PackIndex, parse_pack_index
from crashsim.oracles.git.reflog import parse_reflog
from crashsim.oracles.git.refs import parse_packed_refs, parse_ref_file
from tests.support.git_repository import git_environment

PIECES = st.sampled_from(
    [
        "[core]", "[a \"b\"]", "[A.b]", "[a \"q\\\"x\"]", "[", "]", "\n", "\r\n", "key", " = ", "=",
        "value", "\t", " ", "#", ";", "\"", "\\", "\\n", "\\\n", "9", "-", ".", "name = true\n",
        "x = \"a # b\" c ; d\n", "y\n", "[remote \"origin\"]\n\turl = ../x\n", "\0", "\ufeff", "é",
    ]
)  # fmt: skip


@given(st.lists(PIECES, max_size=12).map("".join))
@settings(max_examples=300, deadline=None)
def test_config_as_git_reads_it(text: str) -> None:
    done = subprocess.run(
        ["git", "config", "--file", "-", "--list", "--null"],
        input=text.encode(),
        env=git_environment(Path("/nonexistent")),
        capture_output=True,
        check=False,
    )
    try:
        ours = [
            key if value is None else f"{key}\n{value}"
            for key, value in parse_config(text.encode()).entries
        ]
    except FormatError:
        assert done.returncode != 0
        return
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().split("\0")[:-1] == ours


def varint(number: int) -> bytes:
    encoded = bytearray()
    while number >= 0x80:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


@given(st.binary(min_size=1, max_size=200), st.data())
def test_delta_rebuilds_what_it_was_made_for(base: bytes, data: st.DataObject) -> None:
    result, instructions = b"", b""
    for _ in range(data.draw(st.integers(0, 6))):
        if data.draw(st.booleans()):
            literal = data.draw(st.binary(min_size=1, max_size=127))
            instructions += bytes([len(literal)]) + literal
            result += literal
        else:
            offset = data.draw(st.integers(0, len(base) - 1))
            size = data.draw(st.integers(1, len(base) - offset))
            instructions += bytes([0x80 | 0x01 | 0x10, offset, size])
            result += base[offset : offset + size]
    delta = varint(len(base)) + varint(len(result)) + instructions
    assert apply_delta(base, delta) == result


@given(st.sampled_from(list(ObjectKind)), st.binary(max_size=300))
def test_loose_object_round_trip(kind: ObjectKind, body: bytes) -> None:
    content = zlib.compress(f"{kind.value} {len(body)}\0".encode() + body)
    try:
        expected = make_object(kind, body, SHA1)
    except FormatError:
        assert not isinstance(parse_loose(content, SHA1), GitObject)
        return
    assert parse_loose(content, SHA1) == expected
    assert expected.oid == SHA1.digest(f"{kind.value} {len(body)}\0".encode() + body)


HEADERS = [
    b"",
    b"DIRC\0\0\0\2\0\0\0\1",
    b"MIDX\1\1\4\0\0\0\0\1",
    b"\xfftOc\0\0\0\2",
    b"PACK\0\0\0\2\0\0\0\1",
]


@given(st.sampled_from(HEADERS), st.binary(max_size=1500))
def test_no_bytes_make_a_parser_fail(header: bytes, rest: bytes) -> None:
    """Whatever a guest sends, the answer is a value: no exception but FormatError leaves."""
    content = header + rest
    parse_loose(content, SHA1)
    parse_index(content, SHA1)
    parse_midx(content, SHA1)
    parse_reflog(content, SHA1)
    parse_packed_refs(content, SHA1)
    parse_ref_file(content, SHA1)
    index = parse_pack_index(content, SHA1)
    if isinstance(index, PackIndex):
        read_pack(content, index, SHA1)
    for reader in (lambda: read_ewah(content, 0, len(content)), lambda: parse_config(content)):
        try:
            reader()
        except FormatError:
            continue


@given(st.sets(st.integers(0, 1000), max_size=60))
def test_ewah_of_literal_words(positions: set[int]) -> None:
    """A bitmap of literals alone, as it is written for scattered bits."""
    bits = max(positions, default=-1) + 1
    words = [0] * ((bits + 63) // 64)
    for position in positions:
        words[position // 64] |= 1 << position % 64
    marker = (len(words) << 33).to_bytes(8, "big")
    payload = marker + b"".join(word.to_bytes(8, "big") for word in words)
    content = bits.to_bytes(4, "big") + (len(words) + 1).to_bytes(4, "big") + payload + bytes(4)
    assert read_ewah(content, 0, len(content)) == (sorted(positions), len(content))


@given(st.integers(0, 5), st.integers(0, 3), st.integers(1, 63))
def test_ewah_runs(ones: int, zeros: int, tail: int) -> None:
    """Runs of whole words, then one literal."""
    words = [ones << 1 | 1, (zeros << 1) | (1 << 33), (1 << tail) - 1]
    bits = 64 * (ones + zeros) + tail
    payload = b"".join(word.to_bytes(8, "big") for word in words)
    content = bits.to_bytes(4, "big") + len(words).to_bytes(4, "big") + payload + bytes(4)
    expected = [*range(64 * ones), *range(64 * (ones + zeros), bits)]
    assert read_ewah(content, 0, len(content)) == (expected, len(content))


@pytest.mark.parametrize("after", [b"\n", b" x", b"\t", b"\r"])
def test_white_space_ends_an_object_name(after: bytes) -> None:
    assert parse_ref_file(b"1" * 40 + after, SHA1) == "1" * 40


@pytest.mark.parametrize("after", [b"\v", b"\f"])
def test_other_libraries_white_space_is_none_to_git(after: bytes) -> None:
    assert isinstance(parse_ref_file(b"1" * 40 + after, SHA1), Damage)

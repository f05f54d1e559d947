"""Lines and OS strings of the agent's protocol."""

import os

import pytest

from crashsim.machines import channel
from crashsim.machines.agent.wire import (
    Hangup,
    LineReader,
    Refused,
    decode_content,
    encode_content,
    from_wire,
    parse,
    send,
)


@pytest.fixture
def pipe() -> tuple[int, int]:
    return os.pipe()


def read_all(reader: LineReader, writable: int, *pieces: bytes) -> list[bytes | None]:
    lines = []
    for piece in pieces:
        os.write(writable, piece)
        lines += reader.read()
    return lines


def test_lines_are_put_together_from_pieces(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0])

    lines = read_all(reader, pipe[1], b"on", b"e\ntwo\n\nthr", b"ee", b"\n")

    assert lines == [b"one", b"two", b"", b"three"]


def test_a_line_that_is_too_long_is_skipped_and_the_next_one_read(pipe: tuple[int, int]) -> None:
    reader = LineReader(pipe[0], line_bytes_max=5)

    lines = read_all(reader, pipe[1], b"12345\n123456\n", b"1234", b"56789", b"0\nok\n")

    assert lines == [b"12345", None, None, b"ok"]


def test_the_end_of_the_stream_is_a_hangup(pipe: tuple[int, int]) -> None:
    os.close(pipe[1])
    with pytest.raises(Hangup):
        LineReader(pipe[0]).read()


def test_messages_are_single_ascii_lines(pipe: tuple[int, int]) -> None:
    send(pipe[1], {"text": "\xff\n"})

    assert os.read(pipe[0], 100) == b'{"text":"\\u00ff\\n"}\n'


@pytest.mark.parametrize("line", [b"", b"[1]", b"1", b"{", b'{"a":1}x', b"\xff", b"[" * 100_000])
def test_what_is_not_an_object_is_refused(line: bytes) -> None:
    with pytest.raises(Refused):
        parse(line)


@pytest.mark.parametrize("raw", [b"plain", b"\xc3\xa4", b"\xff\xfe", bytes(range(1, 256))])
def test_os_strings_come_through_byte_for_byte(raw: bytes) -> None:
    there = from_wire(channel.to_wire(os.fsdecode(raw)))

    assert os.fsencode(there) == raw
    assert channel.from_wire(raw.decode("latin-1")) == os.fsdecode(raw)


@pytest.mark.parametrize("text", ["a\0b", "\u0100", "\udc80"])
def test_what_is_no_os_string_is_refused(text: str) -> None:
    with pytest.raises(Refused):
        from_wire(text)


def test_contents_come_through_and_bad_base64_is_refused() -> None:
    data = bytes(range(256))

    assert decode_content(encode_content(data)) == data
    assert decode_content(channel.encode_content(data)) == data
    for bad in ("A", "A===", "AAAA\n", "ä", "*"):
        with pytest.raises(Refused):
            decode_content(bad)

"""Pack entries: their headers, and inflating within bounds."""

import tracemalloc
import zlib

import pytest

from impl.objects.pack_errors import DamagedPack, ObjectTooLarge, UnsupportedVersion
from impl.objects.pack_format import (
    BLOB,
    HEADER_BYTES,
    LARGEST_OBJECT_BYTES,
    OFFSET_DELTA,
    REFERENCE_DELTA,
    EntryHeader,
    decode_entry_header,
    decode_header,
    encode_base_distance,
    encode_entry_header,
    encode_header,
    inflate,
)


def test_header() -> None:
    assert encode_header(258) == b"PACK\0\0\0\2\0\0\1\2"
    assert decode_header(encode_header(258), "p") == 258


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"", DamagedPack),
        (b"PACK\0\0\0\2\0\0\1", DamagedPack),
        (b"KCAP\0\0\0\2\0\0\0\0", DamagedPack),
        (b"PACK\0\0\0\4\0\0\0\0", UnsupportedVersion),
    ],
)
def test_no_header(data: bytes, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"^p\.pack: "):
        decode_header(data, "p.pack")


def test_entry_header_bytes() -> None:
    assert encode_entry_header(BLOB, 15) == bytes([0x3F])
    assert encode_entry_header(BLOB, 16) == bytes([0xB0, 0x01])
    assert encode_entry_header(OFFSET_DELTA, 0x7FF) == bytes([0xEF, 0x7F])


def test_base_distance_has_no_second_spelling() -> None:
    assert encode_base_distance(127) == bytes([0x7F])
    assert encode_base_distance(128) == bytes([0x80, 0x00])
    assert encode_base_distance(16511) == bytes([0xFF, 0x7F])


@pytest.mark.parametrize("size", [0, 1, 15, 16, 2047, 2048, 1 << 20, (1 << 40) + 5])
def test_offset_delta_header(size: int) -> None:
    entry = encode_entry_header(OFFSET_DELTA, size) + encode_base_distance(300)
    data = bytes(500) + entry
    header = decode_entry_header(data, 500, 20, "p")
    assert header == EntryHeader(500, OFFSET_DELTA, size, len(data), 200)


def test_reference_delta_header() -> None:
    name = bytes(range(32))
    data = encode_entry_header(REFERENCE_DELTA, 9) + name
    assert decode_entry_header(data, 0, 32, "p").base == name


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (b"", "ends within the header"),
        (b"\xb0", "ends within the header"),
        (b"\xb0" + b"\x80" * 20, "impossible size"),
        (b"\x00", "unknown type 0"),
        (b"\x51", "unknown type 5"),
        (
            encode_entry_header(OFFSET_DELTA, 1) + encode_base_distance(500 - HEADER_BYTES + 1),
            "no base",
        ),
        (encode_entry_header(OFFSET_DELTA, 1) + b"\0", "no base"),
        (encode_entry_header(OFFSET_DELTA, 1) + b"\xff" * 100, "no base"),
        (encode_entry_header(OFFSET_DELTA, 1), "ends within the header"),
    ],
)
def test_bad_entry_headers(entry: bytes, message: str) -> None:
    with pytest.raises(DamagedPack, match=message):
        decode_entry_header(bytes(500) + entry, 500, 20, "p")


def _blob(size: int, compressed: bytes) -> tuple[bytes, EntryHeader]:
    return compressed, EntryHeader(0, BLOB, size, 0, None)


@pytest.mark.parametrize("size", [0, 1, 1000, 200_000])
@pytest.mark.parametrize("level", [0, 1, 9])
def test_inflate_finds_the_end(size: int, level: int) -> None:
    content = bytes(at * at % 251 for at in range(size))
    compressed = zlib.compress(content, level)
    data, header = _blob(size, compressed + b"what follows" * 100)
    assert inflate(data, header, len(data), "p") == (content, len(compressed))


@pytest.mark.parametrize("wrong", [-1, 1, 100])
def test_inflate_believes_no_wrong_size(wrong: int) -> None:
    data, header = _blob(1000 + wrong, zlib.compress(b"x" * 1000))
    with pytest.raises(DamagedPack, match="does not have the"):
        inflate(data, header, len(data), "p")


def test_inflate_stops_where_the_objects_end() -> None:
    data, header = _blob(1000, zlib.compress(bytes(range(250)) * 4))
    with pytest.raises(DamagedPack, match="ends within"):
        inflate(data, header, len(data) - 1, "p")


def test_a_bomb_is_not_inflated_beyond_its_claim() -> None:
    bomb = zlib.compress(bytes(100 << 20))
    data, header = _blob(1000, bomb)
    tracemalloc.start()
    with pytest.raises(DamagedPack, match="1000 bytes that it claims"):
        inflate(data, header, len(data), "p")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20


def test_an_impossible_claim_is_refused_at_once() -> None:
    data, header = _blob(1 << 40, zlib.compress(b"small"))
    with pytest.raises(DamagedPack, match="too short for them"):
        inflate(data, header, len(data), "p")


def test_an_object_too_large_for_memory() -> None:
    data, header = _blob(LARGEST_OBJECT_BYTES + 1, bytes(LARGEST_OBJECT_BYTES // 1032 + 1000))
    with pytest.raises(ObjectTooLarge, match="use git"):
        inflate(data, header, len(data), "p")

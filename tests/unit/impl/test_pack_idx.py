"""Pack indexes and reverse indexes."""

import pytest

from impl.objects.hashes import SHA1, SHA256, HashAlgorithm
from impl.objects.idx import PackedEntry, PackIndex, encode_index
from impl.objects.pack_errors import DamagedPackIndex, DamagedReverseIndex, UnsupportedVersion
from impl.objects.rev import decode_reverse_index, encode_reverse_index
from tests.support.pack_samples import sealed

BOTH = pytest.mark.parametrize("algorithm", [SHA1, SHA256], ids=lambda at: at.name)


def entries(count: int, algorithm: HashAlgorithm) -> list[PackedEntry]:
    return [
        PackedEntry(algorithm.new(b"%d" % at).digest(), 12 + 1000 * (at * 7 % count), at * 3)
        for at in range(count)
    ]


def checksum(algorithm: HashAlgorithm) -> bytes:
    return algorithm.new(b"the pack").digest()


@BOTH
def test_everything_comes_back(algorithm: HashAlgorithm) -> None:
    made = entries(300, algorithm)
    index = PackIndex(encode_index(made, checksum(algorithm), algorithm), algorithm, "p.idx")
    assert index.entries() == sorted(made)
    assert index.pack_checksum == checksum(algorithm)
    assert index.names.is_sorted()
    for entry in made:
        position = index.names.find(entry.name)
        assert position is not None
        assert index.offsets[position] == entry.offset
    assert index.names.find(algorithm.new(b"absent").digest()) is None
    offsets = [index.offsets[at] for at in index.by_offset]
    assert offsets == sorted(offsets)


def test_prefixes() -> None:
    made = entries(3000, SHA1)
    index = PackIndex(encode_index(made, checksum(SHA1), SHA1), SHA1, "p.idx")
    name = made[17].name.hex()
    for digits in (2, 3, 6, 40):
        expected = sorted(at.name for at in made if at.name.hex().startswith(name[:digits]))
        assert index.names.starting_with(name[:digits]) == expected


def test_offsets_beyond_2_gib() -> None:
    made = [
        PackedEntry(SHA1.new(b"%d" % at).digest(), offset, 0)
        for at, offset in enumerate((12, (1 << 31) - 1, 1 << 31, 1 << 32, (1 << 40) + 1))
    ]
    data = encode_index(made, checksum(SHA1), SHA1)
    assert PackIndex(data, SHA1, "p.idx").entries() == sorted(made)
    smallest = 8 + 1024 + 5 * (20 + 4 + 4) + 40
    assert len(data) == smallest + 3 * 8


def test_an_empty_index() -> None:
    index = PackIndex(encode_index([], checksum(SHA1), SHA1), SHA1, "p.idx")
    assert (index.count, index.entries()) == (0, [])


@BOTH
def test_damage(algorithm: HashAlgorithm) -> None:
    good = encode_index(entries(20, algorithm), checksum(algorithm), algorithm)

    def broken(data: bytes, message: str, error: type[Exception] = DamagedPackIndex) -> None:
        with pytest.raises(error, match=message):
            PackIndex(data, algorithm, "p.idx")

    broken(b"", "cut short")
    broken(good[:1000], "cut short")
    broken(good[:-1], "checksum")
    broken(good[:-200] + bytes(200), "checksum")
    broken(b"\0" + good[1:], "not of version 2", UnsupportedVersion)
    broken(good[:7] + b"\3" + good[8:], "version 3", UnsupportedVersion)
    more = sealed(good[: 8 + 1020] + (21).to_bytes(4, "big") + good[8 + 1024 :], algorithm)
    broken(more, "size of 21 objects")
    falling = sealed(good[:8] + b"\xff\xff\xff\xff" + good[12:], algorithm)
    broken(falling, "fanout")


def test_a_missing_64_bit_offset() -> None:
    made = [PackedEntry(SHA1.new(b"x").digest(), 5 << 31, 0)]
    data = bytearray(encode_index(made, checksum(SHA1), SHA1))
    at = 8 + 1024 + 20 + 4
    assert data[at : at + 4] == b"\x80\0\0\0"
    data[at + 3] = 1
    index = PackIndex(sealed(data, SHA1), SHA1, "p.idx")
    with pytest.raises(DamagedPackIndex, match="missing from the 64-bit table"):
        _ = index.offsets


@BOTH
def test_reverse_index(algorithm: HashAlgorithm) -> None:
    order = [3, 0, 2, 1]
    data = encode_reverse_index(order, checksum(algorithm), algorithm)

    def decode(data: bytes, pack: bytes = checksum(algorithm)) -> list[int]:
        return list(decode_reverse_index(data, 4, pack, algorithm, "p.rev"))

    assert decode(data) == order
    assert data[:12] == b"RIDX\0\0\0\1\0\0\0" + bytes([1 if algorithm is SHA1 else 2])
    for damaged, message in (
        (b"", "0 bytes"),
        (data[:-1], "bytes are not those"),
        (data[:20] + b"\7" + data[21:], "checksum"),
        (sealed(data[:15] + b"\2" + data[16:], algorithm), "each object once"),
        (sealed(b"X" + data[1:], algorithm), "RIDX"),
    ):
        with pytest.raises(DamagedReverseIndex, match=message):
            decode(damaged)
    with pytest.raises(DamagedReverseIndex, match="another pack"):
        decode(data, bytes(algorithm.size_bytes))

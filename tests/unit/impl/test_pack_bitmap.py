"""EWAH sets and bitmap files."""

import struct

import pytest

from impl.objects.bitmap import BitmapContent, decode_bitmap, encode_bitmap, path_hash
from impl.objects.bitmap_build import NotClosed, build_bitmap, chosen_commits
from impl.objects.ewah import decode_ewah, encode_ewah, positions, set_of
from impl.objects.hashes import SHA1, SHA256
from impl.objects.pack_errors import DamagedBitmap, UnsupportedVersion
from impl.objects.walk import Commit
from tests.support.pack_samples import sealed

CHECKSUM = SHA1.new(b"the pack").digest()


def test_the_words_of_a_known_set() -> None:
    """Two words of ones, one literal: one marker with run bit 1, run length 2, one literal."""
    bits = (1 << 128) - 1 | 5 << 128
    marker = 1 | 2 << 1 | 1 << 33
    assert encode_ewah(bits) == struct.pack(">IIQQI", 131, 2, marker, 5, 0)


def test_the_empty_set_has_one_marker() -> None:
    assert encode_ewah(0) == struct.pack(">IIQI", 0, 1, 0, 0)
    assert decode_ewah(encode_ewah(0), 0, 0, "b") == 0


@pytest.mark.parametrize(
    "members",
    [
        [0],
        [63, 64],
        list(range(64)),
        list(range(64, 192)),
        [1000],
        [*range(200), 5000, 5001, *range(6400, 6528)],
    ],
)
def test_sets_come_back(members: list[int]) -> None:
    bits = set_of(members, members[-1] + 1)
    assert positions(bits) == members
    encoded = b"before" + encode_ewah(bits) + b"after"
    assert decode_ewah(encoded, 6, members[-1] + 1, "b") == bits
    with pytest.raises(DamagedBitmap, match=r"beyond its pack|longer than its pack"):
        decode_ewah(encoded, 6, members[-1], "b")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "ends within"),
        (struct.pack(">II", 64, 1), "ends within"),
        (struct.pack(">II", 64, 0xFFFFFFFF) + bytes(100), "ends within"),
        (struct.pack(">IIQI", 64, 1, 0xFFFFFFFF << 1, 0), "longer than its pack"),
        (struct.pack(">IIQI", 64, 1, 0x7FFFFFFF << 33, 0), "longer than its pack"),
        (struct.pack(">IIQI", 64, 1, 1 << 33, 0), "longer than its pack"),
    ],
)
def test_bad_sets(data: bytes, message: str) -> None:
    with pytest.raises(DamagedBitmap, match=message):
        decode_ewah(data, 0, 128, "b")


def _content(*, hashes: bool = True) -> BitmapContent:
    reachable = {0: 0b0011, 1: 0b1111 << 60, 2: (1 << 99) - 1, 3: (1 << 100) - 1}
    path_hashes = tuple(range(100)) if hashes else None
    return BitmapContent(CHECKSUM, (15, 7 << 90, 3 << 50, 0), reachable, path_hashes)


@pytest.mark.parametrize("hashes", [True, False])
def test_files_come_back(hashes: bool) -> None:
    content = _content(hashes=hashes)
    assert decode_bitmap(encode_bitmap(content, SHA1), 100, CHECKSUM, SHA1, "b") == content


def test_sha256_files_come_back() -> None:
    content = _content()._replace(pack_checksum=SHA256.new(b"p").digest())
    data = encode_bitmap(content, SHA256)
    assert decode_bitmap(data, 100, content.pack_checksum, SHA256, "b") == content


def test_differences_are_shorter_than_sets() -> None:
    """Two large sets that differ in a bit: the second takes no more than a difference does."""
    scattered = int.from_bytes(bytes(range(1, 256)) * 40, "little")
    reachable = {0: scattered, 1: scattered | 1 << 81600}
    both = BitmapContent(CHECKSUM, (0, 0, 0, 0), reachable)
    one = BitmapContent(CHECKSUM, (0, 0, 0, 0), {0: scattered})
    data = encode_bitmap(both, SHA1)
    assert len(data) < len(encode_bitmap(one, SHA1)) + 100
    assert decode_bitmap(data, 90000, CHECKSUM, SHA1, "b") == both


@pytest.mark.parametrize(
    ("where", "byte", "error", "message"),
    [
        (0, b"X", DamagedBitmap, "BITM"),
        (5, b"\2", UnsupportedVersion, "version 2"),
        (7, b"\4", UnsupportedVersion, "options 0x4"),
        (7, b"\x25", UnsupportedVersion, "options 0x25"),
        (8, b"\xff", DamagedBitmap, "names what is not there|ends before|ends within"),
        (12, b"\0", DamagedBitmap, "another pack"),
    ],
)
def test_damage_with_a_right_checksum(
    where: int, byte: bytes, error: type[Exception], message: str
) -> None:
    good = encode_bitmap(_content(), SHA1)
    bad = sealed(good[:where] + byte + good[where + 1 :], SHA1)
    with pytest.raises(error, match=message):
        decode_bitmap(bad, 100, CHECKSUM, SHA1, "b")


def test_damage_with_a_wrong_checksum() -> None:
    good = encode_bitmap(_content(), SHA1)
    for bad in (good[:-1], good[:60] + b"\1" + good[61:]):
        with pytest.raises(DamagedBitmap, match="checksum"):
            decode_bitmap(bad, 100, CHECKSUM, SHA1, "b")


def test_path_hashes_bring_alike_ends_together() -> None:
    assert path_hash(b"") == 0
    assert path_hash(b"a") == ord("a") << 24
    assert path_hash(b"ab") == ((ord("a") << 24) >> 2) + (ord("b") << 24)
    assert path_hash(b"a b\n") == path_hash(b"ab")
    near = abs(path_hash(b"src/Makefile") - path_hash(b"lib/Makefile"))
    assert near < abs(path_hash(b"src/Makefile") - path_hash(b"src/main.c"))


def _name(text: str) -> bytes:
    return SHA1.new(text.encode()).digest()


def test_building_follows_every_link_once() -> None:
    """c2 -> c1; trees share a blob."""
    commits = {
        _name("c2"): Commit(_name("t2"), (_name("c1"),), 2),
        _name("c1"): Commit(_name("t1"), (), 1),
    }
    trees = {
        _name("t1"): [_name("b1")],
        _name("t2"): [_name("b1"), _name("b2"), _name("t1")],
    }
    kinds = {"c": "commit", "t": "tree", "b": "blob"}
    labels = ["c2", "c1", "t2", "t1", "b2", "b1"]
    types = {_name(label): kinds[label[0]] for label in labels}
    order = [_name(label) for label in labels]
    content = build_bitmap(
        order, types, commits, lambda name: trees.get(name, ()), frozenset(), CHECKSUM
    )
    assert content.types == (0b000011, 0b001100, 0b110000, 0)
    by_name = sorted(order)
    assert content.reachable[by_name.index(_name("c2"))] == 0b111111
    assert content.reachable[by_name.index(_name("c1"))] == 0b101010
    with pytest.raises(NotClosed, match=_name("b1").hex()):
        build_bitmap(
            order[:-1], types, commits, lambda name: trees.get(name, ()), frozenset(), CHECKSUM
        )


def test_tips_always_have_a_bitmap() -> None:
    names = [_name(str(number)) for number in range(1000)]
    tips = frozenset({names[777]})
    chosen = chosen_commits(names, tips)
    assert names[777] in chosen
    assert chosen[:100] == names[:100]
    assert len(chosen) < 120

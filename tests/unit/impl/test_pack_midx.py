"""Multi-pack-indexes: the file, and which copy of an object it takes."""

import pytest

from impl.objects.hashes import SHA1, SHA256, HashAlgorithm
from impl.objects.midx import MidxEntry, MultiPackIndex, encode_midx
from impl.objects.midx_build import IndexedPack, choose_entries, pseudo_pack_order
from impl.objects.pack_errors import DamagedMultiPackIndex, UnsupportedVersion
from tests.support.pack_samples import sealed

PACKS = ["pack-a.idx", "pack-b.idx", "pack-c.idx"]


def entries(count: int, algorithm: HashAlgorithm) -> list[MidxEntry]:
    names = sorted(algorithm.new(b"%d" % at).digest() for at in range(count))
    return [MidxEntry(name, at % 3, 12 + at * 100) for at, name in enumerate(names)]


@pytest.mark.parametrize("algorithm", [SHA1, SHA256], ids=lambda at: at.name)
def test_everything_comes_back(algorithm: HashAlgorithm) -> None:
    made = entries(500, algorithm)
    order = list(reversed(range(500)))
    data = encode_midx(PACKS, made, algorithm, pseudo_pack_order=order)
    midx = MultiPackIndex(data, algorithm, "m")
    assert midx.pack_names == PACKS
    assert midx.entries() == made
    assert list(midx.pseudo_pack_order or ()) == order
    assert midx.bitmapped_packs is None
    assert midx.checksum == data[-algorithm.size_bytes :]
    found = midx.names.find(made[77].name)
    assert found == 77
    assert midx.place_at(77) == (77 % 3, 12 + 7700)


def test_offsets_beyond_4_gib() -> None:
    offsets = (12, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40)
    names = sorted(SHA1.new(b"%d" % at).digest() for at in range(len(offsets)))
    made = [MidxEntry(name, 0, offset) for name, offset in zip(names, offsets, strict=True)]
    data = encode_midx(PACKS, made, SHA1)
    assert b"LOFF" in data[:100]
    assert MultiPackIndex(data, SHA1, "m").entries() == made
    short = [entry for entry in made if entry.offset < 1 << 32]
    data = encode_midx(PACKS, short, SHA1)
    assert b"LOFF" not in data[:100]
    assert MultiPackIndex(data, SHA1, "m").entries() == short


def test_bitmapped_packs_are_read() -> None:
    data = encode_midx(PACKS, entries(6, SHA1), SHA1, pseudo_pack_order=list(range(6)))
    at = data.index(b"RIDX")
    as_btmp = sealed(data[:at] + b"BTMP" + data[at + 4 :], SHA1)
    midx = MultiPackIndex(as_btmp, SHA1, "m")
    assert midx.bitmapped_packs == [(0, 1), (2, 3), (4, 5)]
    assert midx.pseudo_pack_order is None


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        (b"MIDX", b"MIDY", DamagedMultiPackIndex, "MIDX"),
        (b"MIDX\1", b"MIDX\3", UnsupportedVersion, "version 3"),
        (b"MIDX\1\1", b"MIDX\1\2", UnsupportedVersion, "hash 2"),
        (b"OIDF", b"OIDG", DamagedMultiPackIndex, "OIDF is missing"),
        (b"PNAM", b"OIDF", DamagedMultiPackIndex, "not where its table says"),
        (b"pack-b.idx", b"pack-z.idx", DamagedMultiPackIndex, "not in order"),
        (b"pack-b.idx", b"../../.idx", DamagedMultiPackIndex, "not plain"),
        (b"pack-b.idx", b"pack-b.pck", DamagedMultiPackIndex, "not plain"),
        (b"\0\0\0\3PNAM", b"\0\0\0\4PNAM", DamagedMultiPackIndex, "not plain"),
    ],
)
def test_damage_with_a_right_checksum(
    old: bytes, new: bytes, error: type[Exception], message: str
) -> None:
    good = encode_midx(PACKS, entries(30, SHA1), SHA1)
    assert old in good
    with pytest.raises(error, match=message):
        MultiPackIndex(sealed(good.replace(old, new, 1), SHA1), SHA1, "m")


def test_a_pack_that_is_not_there() -> None:
    made = [MidxEntry(SHA1.new(b"x").digest(), 7, 12)]
    midx = MultiPackIndex(encode_midx(PACKS, made, SHA1), SHA1, "m")
    with pytest.raises(DamagedMultiPackIndex, match="unknown pack 7"):
        midx.place_at(0)


def test_cut_off_anywhere() -> None:
    good = encode_midx(PACKS, entries(10, SHA1), SHA1)
    for length in range(len(good)):
        with pytest.raises(DamagedMultiPackIndex):
            MultiPackIndex(good[:length], SHA1, "m")


def test_the_newest_copy_wins_unless_a_pack_is_preferred() -> None:
    shared, other = bytes(20), b"\1" * 20
    packs = [
        IndexedPack("pack-b.idx", 5, [(shared, 100)]),
        IndexedPack("pack-a.idx", 5, [(shared, 200), (other, 300)]),
        IndexedPack("pack-c.idx", 9, [(shared, 400)]),
    ]
    names, chosen = choose_entries(packs)
    assert names == PACKS
    assert chosen == [MidxEntry(shared, 2, 400), MidxEntry(other, 0, 300)]
    _, chosen = choose_entries(packs[:2])
    assert chosen[0] == MidxEntry(shared, 0, 200)
    _, chosen = choose_entries(packs, "pack-b.idx")
    assert chosen[0] == MidxEntry(shared, 1, 100)


def test_bitmaps_count_the_preferred_pack_first() -> None:
    made = [
        MidxEntry(bytes([at]) * 20, pack, offset)
        for at, (pack, offset) in enumerate([(0, 50), (1, 90), (2, 10), (1, 20), (0, 10)])
    ]
    assert pseudo_pack_order(PACKS, made, "pack-b.idx") == [3, 1, 4, 0, 2]

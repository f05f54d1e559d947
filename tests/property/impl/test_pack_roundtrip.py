"""Whatever is encoded comes back: deltas, packs, bitmaps, indexes over one and many packs."""

from hypothesis import given
from hypothesis import strategies as st

from impl.objects.bitmap import BitmapContent, decode_bitmap, encode_bitmap
from impl.objects.delta import DeltaBase, apply_delta
from impl.objects.ewah import decode_ewah, encode_ewah, positions, set_of
from impl.objects.hashes import SHA1, SHA256
from impl.objects.idx import PackedEntry, PackIndex, encode_index
from impl.objects.midx import MidxEntry, MultiPackIndex, encode_midx
from impl.objects.pack_scan import PackScan
from impl.objects.packs import PackStore
from tests.support.pack_samples import FrozenFiles, MadePack

ALGORITHMS = st.sampled_from([SHA1, SHA256])
LINES = st.lists(
    st.sampled_from([b"%d of the longer lines\n" % at for at in range(40)]), max_size=60
)
CONTENTS = st.one_of(
    st.binary(max_size=300),
    LINES.map(b"".join),
    st.tuples(LINES.map(b"".join), st.binary(max_size=20)).map(b"".join),
)
OFFSETS = st.one_of(st.integers(12, 1 << 20), st.integers((1 << 31) - 3, 1 << 33))
WORDS = st.sampled_from([0, 1, (1 << 64) - 1, 0x8000000000000000, 0x00FF00FF00FF00FF])


@given(CONTENTS, CONTENTS, st.integers(0, 400))
def test_deltas(base: bytes, target: bytes, limit: int) -> None:
    prepared = DeltaBase(base)
    delta = prepared.delta(target, 10 * len(target) + 100)
    assert delta is not None
    assert apply_delta(base, delta) == target
    limited = prepared.delta(target, limit)
    assert (limited == delta) if len(delta) <= limit else (limited is None)


@given(st.lists(CONTENTS, max_size=12, unique=True), ALGORITHMS)
def test_packs(blobs: list[bytes], algorithm: object) -> None:
    assert algorithm in (SHA1, SHA256)
    chosen = SHA1 if algorithm is SHA1 else SHA256
    made = MadePack(blobs, chosen)
    store = PackStore(FrozenFiles(made.files()), "objects", chosen)
    for name, content in made.contents.items():
        assert store.read(name.hex()) == ("blob", content)
    scan = PackScan(made.pack, chosen, "p", lambda name: None)
    scanned = list(scan.objects())
    assert {found.name: found.content for found in scanned} == made.contents
    entries = [PackedEntry(found.name, found.offset, found.checksum) for found in scanned]
    assert sorted(entries) == sorted(made.entries)
    assert scan.checksum == made.checksum


@given(st.lists(WORDS, max_size=40), st.integers(0, 63))
def test_sets(words: list[int], lowest_bits: int) -> None:
    bits = sum(word << 64 * at for at, word in enumerate(words)) | (1 << lowest_bits) - 1
    size = bits.bit_length()
    assert decode_ewah(encode_ewah(bits), 0, size, "b") == bits
    members = positions(bits)
    assert set_of(members, size) == bits
    assert len(members) == bits.bit_count()


@given(st.data())
def test_bitmaps(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 300))
    sets = st.sets(st.integers(0, count - 1), max_size=count).map(
        lambda members: set_of(sorted(members), count)
    )
    reachable = data.draw(st.dictionaries(st.integers(0, count - 1), sets, max_size=8))
    types = data.draw(st.tuples(sets, sets, sets, sets))
    hashes = tuple(at * 7919 for at in range(count)) if data.draw(st.booleans()) else None
    content = BitmapContent(bytes(20), types, reachable, hashes)
    assert decode_bitmap(encode_bitmap(content, SHA1), count, bytes(20), SHA1, "b") == content


@given(st.dictionaries(st.binary(min_size=20, max_size=20), OFFSETS, max_size=30))
def test_indexes(places: dict[bytes, int]) -> None:
    entries = [PackedEntry(name, offset, offset & 0xFFFF) for name, offset in places.items()]
    index = PackIndex(encode_index(entries, bytes(20), SHA1), SHA1, "i")
    assert index.entries() == sorted(entries)
    assert all(index.names.find(name) is not None for name in places)


@given(
    st.dictionaries(
        st.binary(min_size=32, max_size=32), st.tuples(st.integers(0, 2), OFFSETS), max_size=30
    )
)
def test_midx(places: dict[bytes, tuple[int, int]]) -> None:
    entries = sorted(MidxEntry(name, *place) for name, place in places.items())
    packs = ["pack-a.idx", "pack-b.idx", "pack-c.idx"]
    midx = MultiPackIndex(encode_midx(packs, entries, SHA256), SHA256, "m")
    assert midx.entries() == entries
    assert all(midx.names.find(name) is not None for name in places)

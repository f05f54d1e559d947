"""Reading from all packs of a directory: found, verified, and found again after a repack."""

import zlib

import pytest

from impl.objects.hashes import SHA1, SHA256, HashAlgorithm
from impl.objects.idx import PackedEntry, encode_index
from impl.objects.midx import encode_midx
from impl.objects.midx_build import choose_entries, indexed
from impl.objects.midx_maintenance import choose_for_repack, pack_usage, verify_midx
from impl.objects.pack_errors import DamagedPack
from impl.objects.pack_format import BLOB, REFERENCE_DELTA, encode_entry_header
from impl.objects.pack_write import PackWriter
from impl.objects.packs import PackStore
from tests.support.pack_samples import FrozenFiles, MadePack, object_name

BOTH = pytest.mark.parametrize("algorithm", [SHA1, SHA256], ids=lambda at: at.name)
MIDX = "objects/pack/multi-pack-index"


def blobs(label: str, count: int = 20) -> list[bytes]:
    text = "".join(f"{label} line {line} of the text\n" for line in range(30))
    return [f"{text}{label} version {number}\n".encode() for number in range(count)]


def store(
    port: FrozenFiles, algorithm: HashAlgorithm = SHA1, warnings: list[str] | None = None
) -> PackStore:
    return PackStore(port, "objects", algorithm, warn=None if warnings is None else warnings.append)


def read_all(made: PackStore, *packs: MadePack) -> None:
    for pack in packs:
        for name, content in pack.contents.items():
            assert made.read(name.hex()) == ("blob", content)


def with_midx(port: FrozenFiles, algorithm: HashAlgorithm = SHA1) -> None:
    names, chosen = choose_entries([indexed(pack) for pack in store(port, algorithm).packs()])
    port.files[MIDX] = encode_midx(names, chosen, algorithm)


@BOTH
def test_objects_of_several_packs(algorithm: HashAlgorithm) -> None:
    one, two = MadePack(blobs("one"), algorithm), MadePack(blobs("two"), algorithm)
    port = FrozenFiles(one.files() | two.files())
    made = store(port, algorithm)
    read_all(made, one, two)
    assert set(made.names()) == {name.hex() for name in one.contents | two.contents}
    assert made.read("ab" * algorithm.size_bytes) is None
    with_midx(port, algorithm)
    made.refresh()
    assert made.midx is not None
    read_all(made, one, two)
    assert sorted(made.names()) == sorted(name.hex() for name in one.contents | two.contents)


def test_an_empty_directory() -> None:
    made = store(FrozenFiles({}))
    assert made.read("ab" * 20) is None
    assert list(made.names()) == []
    assert not made.packs()


def test_a_pack_that_appears_is_found() -> None:
    one, two = MadePack(blobs("one"), SHA1), MadePack(blobs("two"), SHA1)
    port = FrozenFiles(one.files())
    made = store(port)
    read_all(made, one)
    name = next(iter(two.contents)).hex()
    assert not made.contains(name)
    port.files |= two.files()
    assert not made.contains(name)
    read_all(made, two)
    assert made.contains(name)


def test_a_repack_under_way_hides_nothing() -> None:
    """The pack that was listed goes before it is opened; its objects are in another one."""
    old, new = MadePack(blobs("one"), SHA1), MadePack(list(reversed(blobs("one"))), SHA1)
    port = FrozenFiles(old.files())
    made = store(port)
    assert made.contains(next(iter(old.contents)).hex())
    port.files = new.files()
    read_all(made, old)


def test_a_repack_between_listing_and_the_first_look() -> None:
    """The .idx has gone before it was opened."""
    old, new = MadePack(blobs("one"), SHA1), MadePack(list(reversed(blobs("one"))), SHA1)
    port = FrozenFiles(old.files())
    made = store(port)
    assert len(made.packs()) == 1
    port.files = new.files()
    assert made.contains(next(iter(old.contents)).hex())
    read_all(made, old)


def test_a_damaged_copy_is_passed_over_for_a_whole_one() -> None:
    one = MadePack(blobs("one", 2), SHA1)
    other = MadePack([*blobs("one", 2), b"more"], SHA1)
    port = FrozenFiles(one.files() | other.files())
    names = sorted(path for path in port.files if path.endswith(".pack"))
    name = next(iter(one.contents))
    for damaged in names:
        bad = bytearray(port.files[damaged])
        bad[20] ^= 0x40
        made = store(FrozenFiles(port.files | {damaged: bytes(bad)}))
        assert made.read(name.hex()) == ("blob", one.contents[name])
        both = {
            path: content[:20] + b"\0" + content[21:]
            for path, content in port.files.items()
            if path.endswith(".pack")
        }
        with pytest.raises(DamagedPack):
            store(FrozenFiles(port.files | both)).read(name.hex())


@pytest.mark.parametrize("content", [b"", bytes(500), b"MIDX\1\1\4\0"])
def test_a_bad_midx_costs_a_warning(content: bytes) -> None:
    one = MadePack(blobs("one"), SHA1)
    warnings: list[str] = []
    made = store(FrozenFiles(one.files() | {MIDX: content}), warnings=warnings)
    read_all(made, one)
    assert len(warnings) == 1
    assert "going on without it" in warnings[0]
    assert len(verify_midx(made)) == 1


def test_a_midx_of_packs_that_are_gone_is_not_believed() -> None:
    """git's expire removes packs before it rewrites the index: a crash in between leaves this."""
    one, two = MadePack(blobs("one"), SHA1), MadePack(blobs("two"), SHA1)
    port = FrozenFiles(one.files() | two.files())
    with_midx(port)
    port.files = {path: at for path, at in port.files.items() if path not in two.files()}
    warnings: list[str] = []
    made = store(port, warnings=warnings)
    read_all(made, one)
    assert made.read(next(iter(two.contents)).hex()) is None
    assert "is not there" in warnings[0]
    assert any("failed to load pack" in problem for problem in verify_midx(made))


def test_a_midx_that_points_nowhere_is_passed_over() -> None:
    one = MadePack(blobs("one"), SHA1)
    port = FrozenFiles(one.files())
    names, chosen = choose_entries([indexed(pack) for pack in store(port).packs()])
    chosen[3] = chosen[3]._replace(pack=9)
    port.files[MIDX] = encode_midx(names, chosen, SHA1)
    warnings: list[str] = []
    read_all(store(port, warnings=warnings), one)
    assert ["unknown pack 9" in warning for warning in warnings] == [True]


def test_verify_compares_every_offset() -> None:
    one = MadePack(blobs("one"), SHA1)
    port = FrozenFiles(one.files())
    names, chosen = choose_entries([indexed(pack) for pack in store(port).packs()])
    port.files[MIDX] = encode_midx(names, chosen, SHA1)
    assert verify_midx(store(port)) == []
    chosen[5] = chosen[5]._replace(offset=chosen[5].offset + 1)
    port.files[MIDX] = encode_midx(names, chosen, SHA1)
    problems = verify_midx(store(port))
    assert [chosen[5].name.hex() in problem for problem in problems] == [True]


def test_an_index_that_names_another_object() -> None:
    one = MadePack([b"first", b"second"], SHA1)
    a, b = one.entries
    swapped = [PackedEntry(a.name, b.offset, b.checksum), PackedEntry(b.name, a.offset, a.checksum)]
    files = one.files()
    files[next(path for path in files if path.endswith(".idx"))] = encode_index(
        swapped, one.checksum, SHA1
    )
    with pytest.raises(DamagedPack, match=f"is not {a.name.hex()}"):
        store(FrozenFiles(files)).read(a.name.hex())


def test_deltas_in_a_circle() -> None:
    """Two REF_DELTAs, each the other's base."""
    one, two = object_name(b"one", SHA1), object_name(b"two", SHA1)
    parts: list[bytes] = []
    writer = PackWriter(lambda data: parts.append(bytes(data)), SHA1, 2)
    delta = zlib.compress(bytes([3, 3, 0x90, 3]))
    writer._add(one, encode_entry_header(REFERENCE_DELTA, 4) + two, delta)
    writer._add(two, encode_entry_header(REFERENCE_DELTA, 4) + one, delta)
    checksum = writer.finish()
    stem = f"objects/pack/pack-{checksum.hex()}"
    index = encode_index(writer.entries, checksum, SHA1)
    files = {f"{stem}.pack": b"".join(parts), f"{stem}.idx": index}
    with pytest.raises(DamagedPack, match="more than 4095 deltas"):
        store(FrozenFiles(files)).read(one.hex())


def test_a_long_chain_is_read() -> None:
    contents = [b"x" * 100 + b"\n%d" % number for number in range(3000)]
    parts: list[bytes] = []
    writer = PackWriter(lambda data: parts.append(bytes(data)), SHA1, len(contents))
    names = [object_name(content, SHA1) for content in contents]
    writer.add_whole(names[0], BLOB, len(contents[0]), zlib.compress(contents[0]))
    for at in range(1, len(contents)):
        tail = contents[at][100:]
        old, new = len(contents[at - 1]), len(contents[at])
        delta = bytes([old, new, 0x90, 100, len(tail)]) + tail
        writer.add_delta(names[at], names[at - 1], len(delta), zlib.compress(delta))
    checksum = writer.finish()
    stem = f"objects/pack/pack-{checksum.hex()}"
    index = encode_index(writer.entries, checksum, SHA1)
    made = store(FrozenFiles({f"{stem}.pack": b"".join(parts), f"{stem}.idx": index}))
    assert made.read(names[-1].hex()) == ("blob", contents[-1])


def test_which_packs_a_midx_repack_takes() -> None:
    packs = [
        MadePack(blobs(label, count), SHA1) for label, count in (("a", 2), ("b", 30), ("c", 3))
    ]
    port = FrozenFiles({path: data for pack in packs for path, data in pack.files().items()})
    for age, pack in enumerate(packs):
        for path in pack.files():
            port.times_ns[path] = 1000 + age
    with_midx(port)
    made = store(port)
    assert made.midx is not None
    usage = pack_usage(made, made.midx)
    assert sum(use.referenced for use in usage) == 35
    number = {use.pack.name: use.number for use in usage}
    a, b, c = (number[f"pack-{pack.checksum.hex()}"] for pack in packs)
    sizes = [len(pack.pack) for pack in packs]
    assert choose_for_repack(usage, 0) == {a, b, c}
    assert choose_for_repack(usage, sizes[0] + sizes[2]) == {a, c}
    assert choose_for_repack(usage, 10) == set()
    stem = f"objects/pack/pack-{packs[1].checksum.hex()}"
    port.files[f"{stem}.keep"] = b""
    assert choose_for_repack(usage, 0) == {a, c}

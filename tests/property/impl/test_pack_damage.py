"""Damage of every kind, at every place: a clear error or the right answer, nothing else.

Each file of a store is truncated, zeroed, flipped or lengthened; then its checksum is either left
as it is, as a disk leaves it, or made right again, as an attacker would. In the first case every
object must come out right or be refused. In the second an index may say that an object is not
there, but nothing that comes out may be wrong either.
"""

import tracemalloc
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from impl.errors import StoreError
from impl.objects.bitmap import encode_bitmap
from impl.objects.bitmap_build import build_bitmap
from impl.objects.bitmap_read import open_bitmap
from impl.objects.ewah import positions
from impl.objects.hashes import SHA1
from impl.objects.midx import encode_midx
from impl.objects.midx_build import choose_entries, indexed, pseudo_pack_order
from impl.objects.midx_maintenance import verify_midx
from impl.objects.pack_data import Content
from impl.objects.pack_scan import PackScan
from impl.objects.pack_verify import pack_problems
from impl.objects.packs import PackStore
from impl.objects.rev import encode_reverse_index
from tests.support.pack_samples import FrozenFiles, MadePack, object_name, sealed

MOST_BYTES = 64 << 20
"""A damaged store of a few KiB may not take more memory than this to be refused."""


@cache
def whole() -> tuple[dict[str, bytes], dict[bytes, bytes]]:
    """A store of two packs with everything that goes with them; and its objects."""
    text = b"".join(b"line %d of the text\n" % number for number in range(40))
    packs = [
        MadePack([text + b"%d %d\n" % (number, label) for number in range(12)], SHA1)
        for label in (1, 2)
    ]
    files: dict[str, bytes] = {}
    contents: dict[bytes, bytes] = {}
    for pack in packs:
        files |= pack.files()
        contents |= pack.contents
        stem = f"objects/pack/pack-{pack.checksum.hex()}"
        order = sorted(range(len(pack.entries)), key=lambda at: pack.entries[at].name)
        by_offset = sorted(range(len(order)), key=lambda at: pack.entries[order[at]].offset)
        files[f"{stem}.rev"] = encode_reverse_index(by_offset, pack.checksum, SHA1)
        names = [entry.name for entry in pack.entries]
        types = dict.fromkeys(names, "blob")
        content = build_bitmap(names, types, {}, lambda name: (), frozenset(), pack.checksum)
        content = content._replace(reachable={0: 0b101, 3: (1 << len(names)) - 1})
        files[f"{stem}.bitmap"] = encode_bitmap(content, SHA1)
    store = PackStore(FrozenFiles(files), "objects", SHA1)
    names_of_packs, entries = choose_entries([indexed(pack) for pack in store.packs()])
    order = pseudo_pack_order(names_of_packs, entries, names_of_packs[0])
    midx = encode_midx(names_of_packs, entries, SHA1, pseudo_pack_order=order)
    files["objects/pack/multi-pack-index"] = midx
    return files, contents


@st.composite
def damages(draw: st.DrawFn, suffixes: tuple[str, ...]) -> tuple[str, bytes, bool]:
    """A file, its damaged content, and whether its checksum was made right again."""
    files, _ = whole()
    path = draw(st.sampled_from(sorted(path for path in files if path.endswith(suffixes))))
    data = bytearray(files[path])
    at = draw(st.integers(0, len(data) - 1))
    kind = draw(st.sampled_from(["cut", "zero", "flip", "byte", "word", "longer"]))
    if kind == "cut":
        del data[at:]
    elif kind == "zero":
        length = draw(st.integers(1, 512))
        data[at : at + length] = bytes(len(data[at : at + length]))
    elif kind == "flip":
        data[at] ^= 1 << draw(st.integers(0, 7))
    elif kind == "byte":
        data[at] = draw(st.integers(0, 255))
    elif kind == "word":
        data[at : at + 4] = draw(st.sampled_from([b"\xff" * 4, b"\x7f" + b"\xff" * 3, bytes(4)]))
    else:
        data[at:at] = draw(st.binary(min_size=1, max_size=40))
    reseal = draw(st.booleans()) and len(data) > SHA1.size_bytes
    return path, sealed(data, SHA1) if reseal else bytes(data), reseal


def _read(store: PackStore, name: bytes) -> bytes | StoreError | None:
    try:
        found = store.read(name.hex())
    except StoreError as error:
        return error
    return None if found is None else found[1]


@settings(max_examples=400)
@given(damages((".pack", ".idx", "multi-pack-index")))
def test_reading_every_object(damage: tuple[str, bytes, bool]) -> None:
    path, content, resealed = damage
    files, contents = whole()
    store = PackStore(FrozenFiles(files | {path: content}), "objects", SHA1)
    for name, expected in contents.items():
        found = _read(store, name)
        if found is None:
            assert resealed, "damage that no checksum covers made an object disappear"
        elif isinstance(found, bytes):
            assert found == expected
        else:
            assert "multi-pack-index" not in path, "the packs' own indexes are whole"


@settings(max_examples=300)
@given(damages((".bitmap", "multi-pack-index")))
def test_bitmaps_are_right_or_passed_over(damage: tuple[str, bytes, bool]) -> None:
    path, content, resealed = damage
    files, _ = whole()
    warnings: list[str] = []
    store = PackStore(FrozenFiles(files | {path: content}), "objects", SHA1, warn=warnings.append)
    try:
        bitmap = open_bitmap(store, warnings.append)
    except StoreError:
        return
    if bitmap is None or resealed:
        return
    good = open_bitmap(PackStore(FrozenFiles(files), "objects", SHA1), warnings.append)
    assert good is not None
    is_used = "multi-pack-index" in path or path == min(at for at in files if ".bitmap" in at)
    if content != files[path] and is_used:
        assert warnings
    for bits in bitmap.content.reachable.values():
        assert positions(bits)[-1] < 12


@settings(max_examples=200)
@given(damages((".pack", ".idx", ".rev", ".bitmap", "multi-pack-index")))
def test_verifying_finds_all_of_it(damage: tuple[str, bytes, bool]) -> None:
    path, content, resealed = damage
    files, _ = whole()
    store = PackStore(FrozenFiles(files | {path: content}), "objects", SHA1)
    problems = verify_midx(store)
    for pack in store.packs():
        problems += pack_problems(pack)
    if content != files[path] and not resealed:
        assert problems


@settings(max_examples=400)
@given(damages((".pack",)))
def test_indexing_a_damaged_pack(damage: tuple[str, bytes, bool]) -> None:
    path, content, resealed = damage
    files, _ = whole()

    def outside(name: bytes) -> Content | None:
        return None

    try:
        found = list(PackScan(content, SHA1, "p", outside).objects())
    except StoreError:
        return
    assert resealed or content == files[path]
    for scanned in found:
        assert object_name(scanned.content, SHA1, scanned.kind) == scanned.name


@settings(max_examples=300)
@given(st.binary(max_size=400), st.booleans(), st.integers(0, 5))
@example(b"", True, 1)
def test_nonsense_after_a_header(nonsense: bytes, reseal: bool, count: int) -> None:
    data = b"PACK\0\0\0\2" + count.to_bytes(4, "big") + nonsense + bytes(20)
    data = sealed(data, SHA1) if reseal else data
    tracemalloc.start()
    try:
        for scanned in PackScan(data, SHA1, "p", lambda name: None).objects():
            assert object_name(scanned.content, SHA1, scanned.kind) == scanned.name
    except StoreError:
        pass
    finally:
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < MOST_BYTES


@pytest.mark.parametrize("suffix", [".pack", ".idx", ".rev", ".bitmap", "multi-pack-index"])
def test_every_length(suffix: str) -> None:
    """Cut off after each byte, verifying says so."""
    files, _ = whole()
    path = next(path for path in sorted(files) if path.endswith(suffix))
    for length in range(0, len(files[path]), 7):
        cut = files | {path: files[path][:length]}
        store = PackStore(FrozenFiles(cut), "objects", SHA1)
        problems = verify_midx(store)
        for pack in store.packs():
            problems += pack_problems(pack)
        assert problems, length

"""Answering "what can be reached?" with bitmaps, of a pack or of the multi-pack-index."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from impl.durability.port import map_file
from impl.objects.bitmap import TYPE_ORDER, BitmapContent, decode_bitmap
from impl.objects.ewah import positions
from impl.objects.idx import NameTable
from impl.objects.pack_errors import DamagedBitmap, DamagedMultiPackIndex, UnsupportedVersion
from impl.objects.packs import MIDX_NAME, PackStore
from impl.objects.walk import Reached, Read, Walk, commit_links, tag_link


class BitmapIndex:
    """One .bitmap with the objects that its positions stand for."""

    def __init__(self, content: BitmapContent, names: NameTable, order: Sequence[int]) -> None:
        """
        :param names: of the pack's (or multi-pack-index') objects.
        :param order: positions in `names`, in the order that the bitmaps count in.
        """
        self.content = content
        self._names = names
        self._order = order

    def commit(self, name: bytes) -> int | None:
        """What a commit reaches, as a set of positions; None if it has no bitmap."""
        position = self._names.find(name)
        return None if position is None else self.content.reachable.get(position)

    def members(self, bits: int) -> Iterator[Reached]:
        """The objects of a set: commits, trees, blobs, tags, each in pack order."""
        for type_name, of_type in zip(TYPE_ORDER, self.content.types, strict=True):
            for position in positions(bits & of_type):
                yield Reached(self._names.name_at(self._order[position]), type_name, b"")

    def __len__(self) -> int:
        """How many commits have a bitmap."""
        return len(self.content.reachable)


def open_bitmap(store: PackStore, warn: Callable[[str], None]) -> BitmapIndex | None:
    """The multi-pack-index' bitmap, or else the first pack's that has one; None without any.

    A damaged one is warned of and passed over: it is derived, and a walk finds the same.
    """
    for opener in (_open_midx_bitmap, _open_pack_bitmap):
        try:
            found = opener(store)
        except (DamagedBitmap, DamagedMultiPackIndex, UnsupportedVersion) as error:
            warn(f"{error}; going on without it")
            continue
        if found is not None:
            return found
    return None


def _open_midx_bitmap(store: PackStore) -> BitmapIndex | None:
    midx = store.midx
    if midx is None or midx.pseudo_pack_order is None:
        return None
    path = f"{store.directory}/{MIDX_NAME}-{midx.checksum.hex()}.bitmap"
    try:
        data = map_file(store.port, path)
    except FileNotFoundError:
        return None
    content = decode_bitmap(data, midx.count, midx.checksum, store.algorithm, path)
    return BitmapIndex(content, midx.names, midx.pseudo_pack_order)


def _open_pack_bitmap(store: PackStore) -> BitmapIndex | None:
    for pack in store.packs():
        path = pack.stem + ".bitmap"
        try:
            data = map_file(store.port, path)
        except FileNotFoundError:
            continue
        index = pack.index
        content = decode_bitmap(data, index.count, index.pack_checksum, store.algorithm, path)
        return BitmapIndex(content, index.names, index.by_offset)
    return None


def reach_with_bitmap(
    bitmap: BitmapIndex, tips: Iterable[bytes], read: Read, name_bytes: int
) -> Iterator[Reached]:
    """Everything reachable, each once: walked from the tips down to commits that have a bitmap.

    Raises Corrupt, ObjectMissing.
    """
    bits = 0
    walked: dict[bytes, str] = {}
    waiting = list(tips)
    others: list[bytes] = []
    while waiting:
        name = waiting.pop()
        if name in walked:
            continue
        known = bitmap.commit(name)
        if known is not None:
            bits |= known
            continue
        type_name, content = read(name)
        walked[name] = type_name
        if type_name == "commit":
            commit = commit_links(content, name)
            waiting += commit.parents
            others.append(commit.tree)
        elif type_name == "tag":
            waiting.append(tag_link(content, name).name)
        else:
            others.append(name)
    covered = list(bitmap.members(bits))
    yield from covered
    seen = {found.name for found in covered}
    for name, type_name in walked.items():
        if type_name in ("commit", "tag") and name not in seen:
            yield Reached(name, type_name, b"")
    yield from Walk(read, name_bytes).reach(others, seen)

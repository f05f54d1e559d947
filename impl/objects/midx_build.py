"""Choosing what a multi-pack-index says: one copy of each object, and the order for bitmaps."""

from collections.abc import Sequence
from typing import NamedTuple

from impl.objects.midx import MidxEntry
from impl.objects.pack_file import Pack


class IndexedPack(NamedTuple):
    """One pack that goes into a multi-pack-index.

    :ivar index_name: the file name of its .idx. :ivar modified_ns: of the .pack.
    :ivar objects: name and offset of each.
    """

    index_name: str
    modified_ns: int
    objects: Sequence[tuple[bytes, int]]


def indexed(pack: Pack) -> IndexedPack:
    """A pack that is there already. Raises DamagedPackIndex, DamagedPack, OSError."""
    index = pack.index
    return IndexedPack(
        f"{pack.name}.idx",
        pack.modified_ns(),
        list(zip(index.names, index.offsets, strict=True)),
    )


def choose_entries(
    packs: Sequence[IndexedPack], preferred: str | None = None
) -> tuple[list[str], list[MidxEntry]]:
    """The packs' names and the objects, both sorted as the file has them.

    An object that is in several packs is taken from the preferred one, otherwise from the one
    modified last, otherwise from the first by name.
    """
    ordered = sorted(packs, key=lambda pack: pack.index_name)
    best_last = sorted(
        range(len(ordered)),
        key=lambda at: (
            ordered[at].index_name == preferred,
            ordered[at].modified_ns,
            -at,
        ),
    )
    chosen: dict[bytes, MidxEntry] = {}
    for at in best_last:
        for name, offset in ordered[at].objects:
            chosen[name] = MidxEntry(name, at, offset)
    names = [pack.index_name for pack in ordered]
    return names, [chosen[name] for name in sorted(chosen)]


def pseudo_pack_order(
    pack_names: Sequence[str], entries: Sequence[MidxEntry], preferred: str
) -> list[int]:
    """Positions in `entries` in the order that bitmaps count in: the preferred pack's objects,
    then the other packs', each by offset. Source: gitformat-pack(5), "multi-pack-index reverse
    indexes"."""

    def place(position: int) -> tuple[bool, int, int]:
        entry = entries[position]
        return pack_names[entry.pack] != preferred, entry.pack, entry.offset

    return sorted(range(len(entries)), key=place)

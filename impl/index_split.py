"""Split indexes: the entries of a shared index with an index of changes laid over them. No I/O.

Source: gitformat-index(5), "Split index". This store reads them, and writes whole indexes.
"""

from collections.abc import Sequence

from impl.errors import CorruptIndex
from impl.index_entry import IndexEntry
from impl.index_format import SplitLink
from impl.objects.ewah import decode_ewah, ewah_size_bytes, positions


def merge_split(
    base: Sequence[IndexEntry], changes: Sequence[IndexEntry], link: SplitLink, path: str
) -> list[IndexEntry]:
    """The entries of the two together, in order. Raises Corrupt if they do not fit together.

    :param path: of the index with the changes, for messages.
    """
    deleted, replaced = _bitmaps(link, len(base), path)
    replacements = iter(changes)
    merged: dict[tuple[bytes, int], IndexEntry] = {}
    for position, entry in enumerate(base):
        if position in replaced:
            change = next(replacements, None)
            if change is None or change.path:
                raise CorruptIndex(f"{path}: fewer replaced entries than its bitmap says")
            entry = change._replace(path=entry.path)
        if position not in deleted:
            merged[entry.key] = entry
    for entry in replacements:
        if not entry.path:
            raise CorruptIndex(f"{path}: more replaced entries than its bitmap says")
        merged[entry.key] = entry
    return [merged[key] for key in sorted(merged)]


def _bitmaps(link: SplitLink, count: int, path: str) -> tuple[frozenset[int], frozenset[int]]:
    if not link.bitmaps:
        return frozenset(), frozenset()
    length = ewah_size_bytes(link.bitmaps, 0, path)
    deleted = decode_ewah(link.bitmaps, 0, count, path)
    replaced = decode_ewah(link.bitmaps, length, count, path)
    return frozenset(positions(deleted)), frozenset(positions(replaced))

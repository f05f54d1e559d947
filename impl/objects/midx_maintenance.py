"""Looking after a multi-pack-index: whether it is right, and which packs it no longer needs."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from impl.durability.port import map_file
from impl.errors import Corrupt
from impl.objects.midx import MultiPackIndex
from impl.objects.pack_errors import UnsupportedVersion
from impl.objects.pack_file import Pack
from impl.objects.packs import MIDX_NAME, PackStore


class Usage(NamedTuple):
    """How much a multi-pack-index takes from one of its packs.

    :ivar number: the pack's, in the index. :ivar referenced: how many objects are taken from it.
    """

    number: int
    pack: Pack
    referenced: int


def pack_usage(store: PackStore, midx: MultiPackIndex) -> list[Usage]:
    """For every pack of the index. Raises DamagedMultiPackIndex."""
    counts = Counter(midx.place_at(position)[0] for position in range(midx.count))
    by_name = {f"{pack.name}.idx": pack for pack in store.packs()}
    return [
        Usage(number, by_name[name], counts[number]) for number, name in enumerate(midx.pack_names)
    ]


def choose_for_repack(usage: Sequence[Usage], batch_size: int) -> set[int]:
    """The numbers of the packs to be rolled into one; none if that would be a single pack.

    What a pack adds is estimated by the part of its objects that is in use. Source:
    git-multi-pack-index(1), "repack".
    """
    candidates = [use for use in usage if use.referenced and not use.pack.has(".keep")]
    candidates = [use for use in candidates if not use.pack.has(".mtimes")]
    chosen: list[Usage] = []
    total = 0
    for use in sorted(candidates, key=lambda use: (use.pack.modified_ns(), use.number)):
        if batch_size and total >= batch_size:
            break
        expected = round(use.pack.size_bytes() * use.referenced / use.pack.index.count)
        if batch_size and expected >= batch_size:
            continue
        chosen.append(use)
        total += expected
    if len(chosen) < 2 or total < batch_size:
        return set()
    return {use.number for use in chosen}


def verify_midx(store: PackStore) -> list[str]:
    """What is wrong with the multi-pack-index, in words; nothing if there is none."""
    path = f"{store.directory}/{MIDX_NAME}"
    try:
        midx = MultiPackIndex(map_file(store.port, path), store.algorithm, path)
    except FileNotFoundError:
        return []
    except (Corrupt, UnsupportedVersion) as error:
        return [str(error)]
    problems = []
    if not midx.names.is_sorted():
        problems.append(f"{path}: its object names are not in order")
    try:
        places = [midx.place_at(position) for position in range(midx.count)]
        if midx.pseudo_pack_order is not None and midx.bitmapped_packs is not None:
            total = sum(count for _, count in midx.bitmapped_packs)
            if total != midx.count:
                problems.append(f"{path}: its BTMP chunk counts {total} of {midx.count} objects")
    except Corrupt as error:
        return [*problems, str(error)]
    by_name = {f"{pack.name}.idx": pack for pack in store.packs()}
    for number, name in enumerate(midx.pack_names):
        if name not in by_name:
            problems.append(f"failed to load pack in position {number}: {name} is not there")
            continue
        problems += _compare(midx, places, number, by_name[name])
    return problems


def _compare(
    midx: MultiPackIndex, places: Sequence[tuple[int, int]], number: int, pack: Pack
) -> list[str]:
    try:
        index = pack.index
        offsets = dict(zip(index.names, index.offsets, strict=True))
    except (Corrupt, UnsupportedVersion) as error:
        return [str(error)]
    problems = []
    for position, (owner, offset) in enumerate(places):
        name = midx.names.name_at(position)
        if owner == number and offsets.get(name) != offset:
            problems.append(
                f"incorrect object offset for oid[{position}] = {name.hex()}: {offset}, "
                f"where {pack.name}.idx has {offsets.get(name)}"
            )
    return problems

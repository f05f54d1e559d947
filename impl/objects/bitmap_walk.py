"""The bitmap of a pack, or of a multi-pack-index, from one walk over everything reachable."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from impl.objects.bitmap import encode_bitmap, path_hash
from impl.objects.bitmap_build import build_bitmap
from impl.objects.hashes import HashAlgorithm
from impl.objects.pack_plan import Wanted
from impl.objects.walk import Commit, Reached, Read, Walk


class Reachable(NamedTuple):
    """What a walk found.

    :ivar objects: in the order of the walk.
    :ivar commits: the links of all commits, newest first.
    :ivar trees: what each tree names; empty unless it was asked for.
    """

    objects: list[Reached]
    commits: Mapping[bytes, Commit]
    trees: Mapping[bytes, Sequence[bytes]]

    @property
    def wanted(self) -> list[Wanted]:
        """The objects as pack-objects wants them."""
        return [Wanted(found.name, found.path) for found in self.objects]


def walk_everything(
    read: Read, roots: Iterable[bytes], name_bytes: int, *, for_bitmap: bool
) -> Reachable:
    """Reach everything. Raises Corrupt, ObjectMissing."""
    walk = Walk(read, name_bytes, keep_trees=for_bitmap)
    objects = list(walk.reach(roots))
    newest_first = sorted(walk.commits.items(), key=lambda item: -item[1].seconds)
    return Reachable(objects, dict(newest_first), walk.trees)


def bitmap_file(
    reached: Reachable,
    pack_order: Sequence[bytes],
    checksum: bytes,
    tips: Iterable[bytes],
    read: Read,
    algorithm: HashAlgorithm,
) -> bytes:
    """The .bitmap of a pack, or multi-pack-index, of the given order and checksum.

    :raises NotClosed: something that is reachable is not in `pack_order`.
    """
    types = {found.name: found.type_name for found in reached.objects}
    for name in pack_order:
        if name not in types:
            types[name] = read(name)[0]
    content = build_bitmap(
        pack_order,
        types,
        reached.commits,
        lambda name: reached.trees.get(name, ()),
        frozenset(tips),
        checksum,
        {found.name: path_hash(found.path) for found in reached.objects},
    )
    return encode_bitmap(content, algorithm)

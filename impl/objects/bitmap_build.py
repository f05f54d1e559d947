"""Making reachability bitmaps for a pack that is about to be published."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from impl.objects.bitmap import TYPE_ORDER, BitmapContent
from impl.objects.ewah import set_of
from impl.objects.walk import Commit

_NEWEST = 100
_SPACING = 100


class NotClosed(Exception):
    """Something that a packed object links to is not in the pack, so it can have no bitmap."""


def chosen_commits(newest_first: Sequence[bytes], tips: frozenset[bytes]) -> list[bytes]:
    """Which commits get a bitmap: every tip, the newest, and then one in a hundred."""
    return [
        name
        for order, name in enumerate(newest_first)
        if order < _NEWEST or order % _SPACING == 0 or name in tips
    ]


def build_bitmap(
    pack_order: Sequence[bytes],
    types: Mapping[bytes, str],
    commits: Mapping[bytes, Commit],
    tree_links: Callable[[bytes], Sequence[bytes]],
    tips: frozenset[bytes],
    pack_checksum: bytes,
    path_hashes: Mapping[bytes, int] | None = None,
) -> BitmapContent:
    """The bitmaps of a pack.

    :param pack_order: the names of all its objects, by offset.
    :param commits: the links of all its commits, newest first.
    :param tree_links: the objects that a tree names; nothing for any other object.
    :param tips: commits that references name.
    :raises NotClosed: an object that is reachable is not in the pack.
    """
    position = {name: at for at, name in enumerate(pack_order)}
    name_order = {name: at for at, name in enumerate(sorted(pack_order))}
    by_type: dict[str, list[int]] = {type_name: [] for type_name in TYPE_ORDER}
    for name, at in position.items():
        by_type[types[name]].append(at)
    size = len(pack_order)
    sets = [set_of(by_type[type_name], size) for type_name in TYPE_ORDER]
    chosen = chosen_commits(list(commits), tips)
    closures = _closures(chosen, commits, position, tree_links)
    hashes = None
    if path_hashes is not None:
        hashes = [path_hashes.get(name, 0) for name in name_order]
    return BitmapContent(
        pack_checksum,
        (sets[0], sets[1], sets[2], sets[3]),
        {name_order[name]: closures[name] for name in chosen},
        hashes,
    )


def _closures(
    chosen: Sequence[bytes],
    commits: Mapping[bytes, Commit],
    position: Mapping[bytes, int],
    tree_links: Callable[[bytes], Sequence[bytes]],
) -> dict[bytes, int]:
    """What each chosen commit reaches; others' sets are dropped once inherited."""
    size_bytes = (len(position) + 7) // 8
    waiting_children = Counter(parent for commit in commits.values() for parent in commit.parents)
    kept = set(chosen)
    closures: dict[bytes, int] = {}
    for name in parents_first(commits):
        commit = commits[name]
        inherited = 0
        for parent in commit.parents:
            inherited |= closures[parent]
            waiting_children[parent] -= 1
            if not waiting_children[parent] and parent not in kept:
                del closures[parent]
        members = bytearray(inherited.to_bytes(size_bytes, "little"))
        _add(members, name, position)
        _add_tree(members, commit.tree, position, tree_links)
        closures[name] = int.from_bytes(members, "little")
    return closures


def _add(members: bytearray, name: bytes, position: Mapping[bytes, int]) -> bool:
    """Whether it was not a member before."""
    at = position.get(name)
    if at is None:
        raise NotClosed(f"{name.hex()} is reachable, but not in the pack")
    new = not members[at >> 3] >> (at & 7) & 1
    members[at >> 3] |= 1 << (at & 7)
    return new


def _add_tree(
    members: bytearray,
    tree: bytes,
    position: Mapping[bytes, int],
    tree_links: Callable[[bytes], Sequence[bytes]],
) -> None:
    """A tree that is a member already has brought everything below it with it."""
    stack = [tree]
    while stack:
        name = stack.pop()
        if _add(members, name, position):
            stack.extend(tree_links(name))


def parents_first(commits: Mapping[bytes, Commit]) -> list[bytes]:
    """All commits, each after its parents. :raises NotClosed: a parent is missing."""
    order: dict[bytes, None] = {}
    for start in commits:
        stack = [start]
        while stack:
            name = stack[-1]
            if name in order:
                stack.pop()
                continue
            if name not in commits:
                raise NotClosed(f"{name.hex()} is a parent, but not in the pack")
            missing = [parent for parent in commits[name].parents if parent not in order]
            if missing:
                stack.extend(missing)
            else:
                order[name] = None
                stack.pop()
    return list(order)

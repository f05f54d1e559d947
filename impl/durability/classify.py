"""From a file's path to its component: what a system call on it counts for."""

import re

from impl.durability.components import Component

_QUARANTINE = r"(?:tmp_objdir-[^/]+/)?"
_RULES = tuple(
    (re.compile(pattern), component)
    for pattern, component in (
        (rf"objects/{_QUARANTINE}pack/(?:tmp_pack_[^/]*|[^/]*\.pack)", Component.PACK),
        (rf"objects/{_QUARANTINE}pack/[^/]*\.(?:keep|promisor)", Component.OTHER),
        (rf"objects/{_QUARANTINE}pack/.+", Component.PACK_METADATA),
        (r"objects/info/commit-graphs?(?:/.*|\.lock)?", Component.COMMIT_GRAPH),
        (r"(?:objects/info/packs|info/refs)(?:\.lock)?", Component.SERVER_INFO),
        (r"objects/info(?:/.*)?", Component.OTHER),
        (r"objects/pack", Component.PACK),
        (r"objects(?:/.*)?", Component.LOOSE_OBJECT),
        (r"(?:index|index\.stash\.[^/]*)(?:\.lock)?|sharedindex[^/]*", Component.INDEX),
        (r"logs(?:/.*)?", Component.REFLOG),
        (r"refs(?:/.*)?|reftable(?:/.*)?|packed-refs[^/]*", Component.REFERENCE),
        (r"HEAD(?:\.lock)?|ORIG_HEAD(?:\.lock)?", Component.REFERENCE),
    )
)


def component_of(path: str) -> Component:
    """The component of a file or directory, by its path relative to the repository's directory.

    HEAD counts as a reference whatever it contains: a path does not tell.
    """
    for pattern, component in _RULES:
        if pattern.fullmatch(path):
            return component
    return Component.OTHER

"""What is synced: git's words for the kinds of files of a repository."""

from enum import Flag, IntEnum, auto
from functools import cache


class Component(Flag):
    """The components of `core.fsync`, and the files that git syncs under no setting."""

    LOOSE_OBJECT = auto()
    PACK = auto()
    PACK_METADATA = auto()
    """.idx, .rev, .bitmap, .mtimes, and the multi-pack-index."""
    COMMIT_GRAPH = auto()
    INDEX = auto()
    REFERENCE = auto()
    REFLOG = auto()
    """logs/…: no value of git's `core.fsync` covers it; a method of ours may."""
    OTHER = auto()
    """config, HEAD as a symbolic reference, MERGE_MSG, …"""
    SERVER_INFO = auto()
    """info/refs and objects/info/packs, for clients that only fetch files: no command reads them,
    and update-server-info(1) makes them anew. No method syncs them."""


GIT_COMPONENTS = (
    Component.LOOSE_OBJECT
    | Component.PACK
    | Component.PACK_METADATA
    | Component.COMMIT_GRAPH
    | Component.INDEX
    | Component.REFERENCE
)
"""What `core.fsync=all` stands for."""

OBJECT_COMPONENTS = Component.LOOSE_OBJECT | Component.PACK | Component.PACK_METADATA
"""Files whose temporaries have names of their own; the others are written under a `.lock`."""


def component_name(component: Component) -> str:
    """git's word for one component: `loose-object`."""
    return str(component.name).lower().replace("_", "-")


class Phase(IntEnum):
    """The order in which the files of a transaction appear: each before what may refer to it."""

    OBJECTS = 0
    """Loose objects, then packs (each .idx last), then the multi-pack-index and commit-graph."""
    INDEX = 1
    REFERENCES = 2
    """Reflogs, then references and state files in the order in which they were staged."""


@cache  # An operator of Flag costs more than all else that a small file takes here.
def phase_of(component: Component) -> Phase:
    """When files of this kind appear."""
    if component in OBJECT_COMPONENTS | Component.COMMIT_GRAPH:
        return Phase.OBJECTS
    return Phase.INDEX if component is Component.INDEX else Phase.REFERENCES


_RANK_OF_PACKS = 5
_SUFFIX_RANK = {".keep": 1, ".promisor": 1, ".pack": 2, ".idx": 4}


def object_rank(component: Component, final: str) -> int:
    """The place of a file among those of `Phase.OBJECTS`, lowest first.

    Loose objects, .keep, .pack, its derived files, .idx (which makes the pack visible), the
    multi-pack-index' derived files, itself, the commit-graph.
    """
    if component is Component.LOOSE_OBJECT:
        return 0
    if component is Component.COMMIT_GRAPH:
        return 8 if final.endswith(("chain", "commit-graph")) else 7
    name = final[final.rfind("/") + 1 :]
    if name.startswith("multi-pack-index"):
        return 6 if name == "multi-pack-index" or name.endswith("chain") else 5
    dot = name.rfind(".")
    return _SUFFIX_RANK.get(name[dot:], 3) if dot >= 0 else 3


def is_of_packs(component: Component, final: str) -> bool:
    """Whether it is the multi-pack-index or a commit-graph, or one of their files.

    They are made anew from objects that are all somewhere else: without them reading takes longer,
    and nothing is missing.
    """
    return (
        component in Component.PACK_METADATA | Component.COMMIT_GRAPH
        and object_rank(component, final) >= _RANK_OF_PACKS
    )

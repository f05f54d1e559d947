"""Where reachability starts: references, HEAD, reflogs, and the index."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from impl.errors import Corrupt, ObjectMissing
from impl.objects.walk import tag_link
from impl.refs.store import resolve

if TYPE_CHECKING:
    from impl.index_trees import CachedTree
    from impl.repository import Repository

GITLINK_MODE = 0o160000


def all_roots(repository: Repository, *, reflogs: bool, index: bool) -> list[bytes]:
    """The binary names of what references and HEAD name, each once; of reflogs and index too
    if asked. Objects of reflogs that are gone are left out: they have expired.

    Raises Corrupt for references, reflogs or an index that cannot be read.
    """
    found = dict.fromkeys(name for _, name in reference_roots(repository))
    if reflogs:
        for _, name in reflog_roots(repository):
            if name not in found and _is_there(repository, name):
                found[name] = None
    if index:
        found.update(dict.fromkeys(index_roots(repository)))
    return [bytes.fromhex(name) for name in found]


def reference_roots(repository: Repository) -> Iterator[tuple[str, str]]:
    """References, HEAD first, and the objects that they name."""
    store = repository.references
    head = resolve(store, "HEAD").object_name
    if head is not None:
        yield "HEAD", head
    for name, value in store.list():
        if isinstance(value, str):
            yield name, value


def peeled_references(repository: Repository) -> Iterator[tuple[str, str, str | None]]:
    """Each reference below refs/, the object that it leads to, and what that is a tag of, if so.

    Raises Corrupt, ObjectMissing.
    """
    store = repository.references
    for name, _ in store.list():
        value = resolve(store, name).object_name
        if value is None:
            continue
        peeled = value
        type_name, content = repository.objects.read(peeled)
        while type_name == "tag":
            peeled = tag_link(content, bytes.fromhex(peeled)).name.hex()
            type_name, content = repository.objects.read(peeled)
        yield name, value, None if peeled == value else peeled


def reflog_roots(repository: Repository) -> Iterator[tuple[str, str]]:
    """References that have reflogs, and the old and new object of each entry."""
    null = repository.algorithm.null
    store = repository.references
    for name in store.reflog_names():
        for entry in store.reflog(name):
            for value in (entry.old, entry.new):
                if value != null:
                    yield name, value


def index_roots(repository: Repository) -> Iterator[str]:
    """The blobs in the index, and the trees that it remembers."""
    from impl.index import read_index

    index = read_index(repository)
    for entry in index:
        if entry.mode != GITLINK_MODE:
            yield entry.object_name
    yield from _cached_trees(index.trees)


def _cached_trees(root: CachedTree) -> Iterator[str]:
    waiting = [root]
    while waiting:
        tree = waiting.pop()
        if tree.is_valid:
            yield tree.object_name
        waiting += tree.children.values()


def _is_there(repository: Repository, name: str) -> bool:
    try:
        repository.objects.read(name)
    except (ObjectMissing, Corrupt):
        return False
    return True

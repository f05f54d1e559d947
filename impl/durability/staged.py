"""What a writer hands over to a transaction."""

from typing import NamedTuple

from impl.durability.components import Component
from impl.durability.names import Publication


class Staged(NamedTuple):
    """One file on its way: under its temporary name, its descriptor open until it is staged.

    :ivar component: what kind of file it is: decides whether the policy wants it synced.
    :ivar temporary: its path now (a `.lock` for what git locks: index, refs, midx).
    :ivar final: its path once it is published.
    :ivar descriptor: open for writing; the transaction syncs and closes it when it is staged.
    :ivar bulk: one of many of its kind (git's object transactions); False for what git writes
        outside of them: commit objects, tags.
    """

    component: Component
    temporary: str
    final: str
    descriptor: int
    publication: Publication
    bulk: bool = True

"""What the commands that change references have in common."""

from collections.abc import Sequence

from impl.identity import UnknownIdentity, identity
from impl.refs.reflog import Identity
from impl.refs.values import RefUpdate
from impl.repository import Repository


def committer(repository: Repository) -> Identity:
    """Who is named in reflogs: the committer, or nobody if none is known. A reference can be
    changed without an identity, as in git; a commit cannot be made."""
    try:
        return identity(repository, "committer")
    except UnknownIdentity:
        return Identity(b"unknown", b"unknown", repository.now_ns() // 10**9, 0)


def prepare_references(repository: Repository, updates: Sequence[RefUpdate]) -> None:
    """To be called before a transaction of these updates: see `ReferenceStore.gather`."""
    if repository.method.atomic_references:
        repository.references.gather(repository.transaction, updates)


def change_references(repository: Repository, updates: Sequence[RefUpdate]) -> None:
    """Make the updates, all or none. Raises what `ReferenceStore.apply` raises."""
    with repository.transaction() as transaction:
        repository.references.apply(transaction, updates, committer(repository))

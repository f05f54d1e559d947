"""Several references that appear at once: one rename of `packed-refs` shows them all.

With a file for each, a power cut between two renames leaves one reference new and another old. In
`packed-refs` they change together. A reference's own file hides what is packed, so one that has
such a file is packed as it is first, in a transaction of its own (`gather_files`): that changes
nothing that anybody can see.
"""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from impl.refs.errors import ReferenceChanged
from impl.refs.files.claims import Claims
from impl.refs.files.loose import read_loose
from impl.refs.files.packed import PackedRef, PackedRefs
from impl.refs.plan import Change, resolve_name
from impl.refs.values import Action, RefUpdate, Symbolic
from impl.transaction import RepoTransaction

if TYPE_CHECKING:
    from impl.refs.files.store import FilesStore


def change_at_once(updates: Sequence[RefUpdate]) -> bool:
    """Whether several references are updated that `packed-refs` can hold."""
    kinds = (Action.WRITE, Action.DELETE)
    return (
        sum(
            update.name.startswith("refs/")
            and update.action in kinds
            and not isinstance(update.new, Symbolic)
            for update in updates
        )
        > 1
    )


def is_packable(change: Change) -> bool:
    """Whether `packed-refs` can hold the new value: it has no symbolic ones, nor HEAD's like."""
    return change.name.startswith("refs/") and isinstance(change.after, str)


def gather_files(
    store: "FilesStore",
    begin: Callable[[], AbstractContextManager[RepoTransaction]],
    updates: Sequence[RefUpdate],
) -> None:
    """Pack those of the references that have files of their own. Raises LockHeld."""
    from impl.refs.files.packing import pack_references

    if not change_at_once(updates):
        return
    names = {resolve_name(store.read, update.name)[0] for update in updates}
    own = [name for name in names if name.startswith("refs/") and has_own_file(store, name)]
    if own:
        with begin() as transaction:
            pack_references(store, transaction, everything=True, prune=True, only=own)


def has_own_file(store: "FilesStore", name: str) -> bool:
    """Whether there is a loose file with a value that is no symbolic one."""
    return isinstance(read_loose(store.port, store.path(name), name, store.algorithm).value, str)


def check_gathered(store: "FilesStore", changes: Sequence[Change]) -> None:
    """Raise ReferenceChanged if another process has given one a file of its own since."""
    for change in changes:
        if has_own_file(store, change.name):
            raise ReferenceChanged(
                f"cannot lock ref '{change.name}': it has changed just now: try again"
            )


def changed_packed(
    store: "FilesStore", claims: Claims, gone: Collection[str], changes: Sequence[Change]
) -> PackedRefs | None:
    """What `packed-refs` has to become without `gone` and with `changes`; None: as it is.

    It is locked even then: nobody may pack a reference that is about to be deleted.
    """
    if not gone and not changes:
        return None
    claims.hold_packed(store.packed.path)
    packed = claims.packed or store.packed.current()
    refs = {name: ref for name, ref in packed.refs.items() if name not in gone}
    if len(refs) == len(packed.refs) and not changes:
        return None
    for change in changes:
        if isinstance(change.after, str):
            refs[change.name] = PackedRef(change.after, store.describe(change.after).peeled)
    ordered = dict(sorted(refs.items(), key=lambda item: os.fsencode(item[0])))
    return PackedRefs(ordered, is_peeled=packed.is_peeled)

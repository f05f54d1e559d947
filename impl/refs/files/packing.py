"""`git pack-refs`: loose references into `packed-refs`, and their files away.

Order: `packed-refs` appears with the new content, and is durable if the method says so; only then
are loose files removed, each under its own lock and only if it still has the value that was packed.
"""

import os
from collections.abc import Collection
from typing import TYPE_CHECKING

from impl.errors import LockHeld
from impl.refs.errors import CorruptReference
from impl.refs.files.loose import loose_names, read_loose
from impl.refs.files.packed import PackedRef, PackedRefs
from impl.refs.names import is_well_formed
from impl.transaction import RepoTransaction

if TYPE_CHECKING:
    from impl.refs.files.store import FilesStore

_LEFT_BEHIND = ("packed-refs.new", "packed-refs.tmp_")
"""What a crash leaves: git's temporary file, and ours."""


def pack_references(
    store: "FilesStore",
    tx: RepoTransaction,
    *,
    everything: bool,
    prune: bool,
    only: Collection[str] | None = None,
) -> None:
    """Pack tags and what is packed already; with `everything`, all references but symbolic ones.

    :param only: no others than these.

    Raises LockHeld if another process is changing `packed-refs`.
    """
    claims = store.claims(tx)
    claims.hold_packed(store.packed.path)
    _remove_left_behind(tx)
    packed = store.packed.current()
    loose = {
        name: value
        for name, value in _loose_values(store, tx)
        if (only is None or name in only)
        and (everything or name.startswith("refs/tags/") or name in packed.refs)
    }
    refs = dict(packed.refs)
    if not packed.is_peeled:
        refs = {name: _peeled(store, ref.value) for name, ref in packed.refs.items()}
    refs.update((name, _peeled(store, value)) for name, value in loose.items())
    if not refs and not packed.refs:
        return
    ordered = dict(sorted(refs.items(), key=lambda item: os.fsencode(item[0])))
    store.stage_packed(claims, PackedRefs(ordered, is_peeled=True))
    if prune:
        for name, value in loose.items():
            _prune(store, tx, name, value)


def _loose_values(store: "FilesStore", tx: RepoTransaction) -> list[tuple[str, str]]:
    found = []
    for name in loose_names(tx.port, tx.git_directory, "refs/"):
        if not is_well_formed(name):
            continue
        try:
            value = read_loose(tx.port, store.path(name), name, store.algorithm).value
        except CorruptReference:
            continue  # It stays as it is: `verify` and every reader report it.
        if isinstance(value, str):
            found.append((name, value))
    return found


def _peeled(store: "FilesStore", value: str) -> PackedRef:
    return PackedRef(value, store.describe(value).peeled)


def _prune(store: "FilesStore", tx: RepoTransaction, name: str, value: str) -> None:
    try:
        tx.hold(store.path(name))
    except LockHeld:
        return  # It is being updated: the loose file stays, and hides the packed value.
    if read_loose(tx.port, store.path(name), name, store.algorithm).value == value:
        tx.remove(store.path(name))


def _remove_left_behind(tx: RepoTransaction) -> None:
    """Only the holder of `packed-refs.lock` writes such files: so a crash has left these."""
    for name in tx.port.list_directory(tx.git_directory):
        if name.startswith(_LEFT_BEHIND):
            tx.port.unlink(f"{tx.git_directory}/{name}")

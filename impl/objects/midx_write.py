"""Putting a multi-pack-index in place, with its bitmap, and its predecessor's removed."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from impl.durability.components import Component
from impl.durability.port import write_all
from impl.durability.staged import Staged
from impl.errors import StoreError
from impl.objects.bitmap_walk import Reachable, bitmap_file
from impl.objects.midx import encode_midx
from impl.objects.midx_build import IndexedPack, choose_entries, pseudo_pack_order
from impl.objects.packs import MIDX_NAME, PackStore
from impl.objects.walk import Read
from impl.transaction import RepoTransaction


class NothingToIndex(StoreError):
    """A multi-pack-index was to be written where there are no packs."""

    exit_code = 1


class BitmapWish(NamedTuple):
    """What it takes to write a bitmap.

    :ivar reached: everything that can be reached. :ivar tips: commits that references name.
    """

    reached: Reachable
    tips: Sequence[bytes]
    read: Read


def lock_midx(transaction: RepoTransaction, packs: PackStore) -> Staged:
    """Keep others from writing it. Taken before the packs are looked at. Raises LockHeld."""
    return transaction.lock(Component.PACK_METADATA, f"{packs.directory}/{MIDX_NAME}")


def stage_midx(
    transaction: RepoTransaction,
    lock: Staged,
    store: PackStore,
    packs: Sequence[IndexedPack],
    *,
    preferred: str | None = None,
    bitmap: BitmapWish | None = None,
) -> str:
    """Write it over the given packs and hand it to the transaction; returns its checksum.

    :param preferred: the .idx name of the pack whose copies win; needed by, and for a bitmap
        chosen if not given.
    :raises NothingToIndex: there are no packs. :raises NotClosed: no bitmap can be made of them.
    """
    if not packs:
        raise NothingToIndex("no pack files to index: create a pack first, with repack")
    if bitmap is not None and preferred is None:
        preferred = min(packs, key=lambda pack: (pack.modified_ns, pack.index_name)).index_name
    pack_names, entries = choose_entries(packs, preferred)
    order = None
    if bitmap is not None:
        order = pseudo_pack_order(pack_names, entries, preferred or "")
    content = encode_midx(pack_names, entries, store.algorithm, pseudo_pack_order=order)
    checksum = content[-store.algorithm.size_bytes :]
    if bitmap is not None and order is not None:
        names = [entries[position].name for position in order]
        file = bitmap_file(
            bitmap.reached, names, checksum, bitmap.tips, bitmap.read, store.algorithm
        )
        path = f"{store.directory}/{MIDX_NAME}-{checksum.hex()}.bitmap"
        transaction.write(Component.PACK_METADATA, path, file)
    write_all(transaction.port, lock.descriptor, content)
    transaction.stage(lock)
    remove_midx_companions(transaction, store, except_for=checksum.hex())
    return checksum.hex()


def remove_midx(transaction: RepoTransaction, store: PackStore) -> None:
    """Remove it and what belongs to it: packs that it names are about to go."""
    transaction.remove(f"{store.directory}/{MIDX_NAME}")
    remove_midx_companions(transaction, store, except_for=None)


def remove_midx_companions(
    transaction: RepoTransaction, store: PackStore, *, except_for: str | None
) -> None:
    """Remove `multi-pack-index-*` files of other checksums: nothing names them any more."""
    for name in sorted(_listed(store)):
        suffixed = name.startswith(f"{MIDX_NAME}-") and name.endswith((".bitmap", ".rev"))
        if suffixed and (except_for is None or except_for not in name):
            transaction.remove(f"{store.directory}/{name}")


def _listed(store: PackStore) -> Iterable[str]:
    try:
        return store.port.list_directory(store.directory)
    except FileNotFoundError:
        return ()

"""`multi-pack-index`: write, verify, expire and repack the index over all packs."""

from __future__ import annotations

import sys

from impl.context import Context
from impl.durability.spawn import Children, OsChildren
from impl.errors import UsageError
from impl.objects.bitmap_build import NotClosed
from impl.objects.bitmap_walk import walk_everything
from impl.objects.midx_build import indexed
from impl.objects.midx_maintenance import Usage, choose_for_repack, pack_usage, verify_midx
from impl.objects.midx_write import BitmapWish, lock_midx, remove_midx, stage_midx
from impl.objects.pack_child import BUFFER_BYTES, pack_in_child
from impl.objects.pack_removal import remove_packs
from impl.objects.walk_roots import all_roots
from impl.options import Options, parse_options
from impl.porcelain.numbers import number_option
from impl.porcelain.pack_objects import reader
from impl.repository import Repository

_USAGE = (
    "usage: refgit multi-pack-index write [--bitmap] [--preferred-pack=PACK] | verify | expire |\n"
    "       repack [--batch-size=SIZE]"
)
_BUFFER_KEY = "refgit.midxrepackbuffer"
"""Bytes collected before object names are written to pack-objects; 0 for none, as git once did."""


def run(context: Context, arguments: list[str]) -> int:
    """Run one of the four.

    Raises UsageError, LockHeld, NothingToIndex, Corrupt, ChildFailed, OSError.
    """
    options = parse_options(
        arguments,
        _USAGE,
        flags="bitmap no-bitmap progress no-progress",
        values="preferred-pack batch-size",
    )
    if len(options.rest) != 1:
        raise UsageError(_USAGE)
    repository = context.repository
    command = options.rest[0]
    if command == "write":
        _write(context, options)
    elif command == "verify":
        return _verify(context, repository)
    elif command == "expire":
        expire(repository)
    elif command == "repack":
        batch_size = number_option(options, "batch-size", 0)
        repack(
            context,
            batch_size,
            context.children or OsChildren(context.port, context.environment),
        )
    else:
        raise UsageError(f"unknown subcommand: `{command}'\n{_USAGE}")
    return 0


def _write(context: Context, options: Options) -> None:
    repository = context.repository
    preferred = options.value("preferred-pack")
    if preferred is not None:
        preferred = preferred.removesuffix(".pack").removesuffix(".idx") + ".idx"
    try:
        write(repository, preferred, bitmap="bitmap" in options.flags)
    except NotClosed as error:
        context.warn(f"no bitmap is written: {error}")
        write(repository, preferred)


def write(repository: Repository, preferred: str | None = None, *, bitmap: bool = False) -> None:
    """Index every pack that there is. :raises NotClosed: a bitmap is not possible."""
    store = repository.objects.packs
    wish = _bitmap_wish(repository) if bitmap else None
    with repository.transaction() as transaction:
        lock = lock_midx(transaction, store)
        store.refresh()
        packs = [indexed(pack) for pack in store.packs()]
        if preferred is not None and all(pack.index_name != preferred for pack in packs):
            raise UsageError(
                f"unknown preferred pack: '{preferred}': it is not in {store.directory}"
            )
        stage_midx(transaction, lock, store, packs, preferred=preferred, bitmap=wish)
    store.refresh()


def _bitmap_wish(repository: Repository) -> BitmapWish:
    read = reader(repository)
    tips = all_roots(repository, reflogs=False, index=False)
    reached = walk_everything(read, tips, repository.algorithm.size_bytes, for_bitmap=True)
    return BitmapWish(reached, tips, read)


def _verify(context: Context, repository: Repository) -> int:
    problems = verify_midx(repository.objects.packs)
    for problem in problems:
        sys.stderr.write(f"error: {problem}\n")
    return 1 if problems else 0


def expire(repository: Repository) -> None:
    """Remove the packs from which the index takes no object.

    The index is written anew first, and only then are they removed: a crash in between leaves
    packs that nobody needs. (git removes them first, and a crash leaves an index of packs that
    are gone.)
    """
    store = repository.objects.packs
    with repository.transaction() as transaction:
        lock = lock_midx(transaction, store)
        store.refresh()
        midx = store.midx
        if midx is None:
            transaction.discard(lock)
            return
        usage = pack_usage(store, midx)
        unused = [use.pack for use in usage if not use.referenced and not _is_kept(use)]
        if not unused:
            transaction.discard(lock)
            return
        gone = {pack.stem for pack in unused}
        left = [indexed(pack) for pack in store.packs() if pack.stem not in gone]
        if left:
            stage_midx(transaction, lock, store, left)
        else:
            transaction.discard(lock)
            remove_midx(transaction, store)
        remove_packs(transaction, unused)
    store.refresh()


def _is_kept(use: Usage) -> bool:
    return use.pack.has(".keep") or use.pack.has(".mtimes")


def repack(context: Context, batch_size: int, children: Children) -> None:
    """Pack the objects of small packs into a new one, by a pack-objects process.

    :param batch_size: bytes; packs expected to be smaller are taken, oldest first, until together
        they reach it. 0 takes all.
    """
    repository = context.repository
    store = repository.objects.packs
    midx = store.midx
    if midx is None:
        return
    numbers = choose_for_repack(pack_usage(store, midx), batch_size)
    if not numbers:
        return
    names = [
        name.hex()
        for position, name in enumerate(midx.names)
        if midx.place_at(position)[0] in numbers
    ]
    overrides = [part for override in context.overrides for part in ("-c", override)]
    checksum = pack_in_child(
        children,
        context.directory,
        [*overrides, "pack-objects", "-q", f"{store.directory}/pack"],
        names,
        repository.config.integer(_BUFFER_KEY, BUFFER_BYTES),
    )
    write(repository, f"pack-{checksum}.idx")

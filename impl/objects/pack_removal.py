"""Removing packs, and loose objects that packs have: always the last thing a transaction does."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from impl.objects.hashes import HashAlgorithm
from impl.objects.loose import loose_names, loose_path
from impl.objects.pack_file import Pack
from impl.transaction import RepoTransaction

_SUFFIXES = (".idx", ".pack", ".rev", ".keep", ".bitmap", ".promisor", ".mtimes")
"""The .idx first: without it, nobody looks for the rest."""


def remove_packs(transaction: RepoTransaction, packs: Iterable[Pack]) -> None:
    """Remove packs with all their files, once what replaces them is in place."""
    for pack in packs:
        for suffix in _SUFFIXES:
            if suffix in (".idx", ".pack") or pack.has(suffix):
                transaction.remove(pack.stem + suffix)


def remove_packed_loose(
    transaction: RepoTransaction,
    objects_directory: str,
    algorithm: HashAlgorithm,
    is_packed: Callable[[str], bool],
) -> list[str]:
    """Remove the loose objects for which `is_packed` holds, and directories left empty.

    Returns the paths of the objects' files.
    """
    paths = []
    directories: dict[str, None] = {}
    for name in loose_names(transaction.port, objects_directory, algorithm):
        if is_packed(name):
            path = loose_path(objects_directory, name)
            transaction.remove(path)
            paths.append(path)
            directories[f"{objects_directory}/{name[:2]}"] = None
    for directory in directories:
        transaction.remove_directory(directory)
    return paths

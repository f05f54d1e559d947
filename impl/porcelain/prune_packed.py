"""`prune-packed`: remove loose objects that are in packs."""

from __future__ import annotations

from impl.context import Context
from impl.errors import Corrupt, UsageError
from impl.objects.pack_removal import remove_packed_loose
from impl.options import parse_options
from impl.repository import Repository

_USAGE = "usage: refgit prune-packed [-n] [-q]"


def run(context: Context, arguments: list[str]) -> int:
    """Remove them; with `-n` only print what would be.

    Raises UsageError, Corrupt (an .idx), OSError.
    """
    options = parse_options(arguments, _USAGE, flags="dry-run|n quiet|q")
    if options.rest:
        raise UsageError(_USAGE)
    dry = "dry-run" in options.flags
    for path in prune_packed(context.repository, dry=dry):
        if dry:
            context.print(f"rm -f {path}")
    return 0


def prune_packed(repository: Repository, *, dry: bool = False) -> list[str]:
    """The files removed. A packed copy counts only if it can be read: it is all that is left."""
    packs = repository.objects.packs

    def is_whole(name: str) -> bool:
        if not packs.contains(name):
            return False
        try:
            return packs.read(name) is not None
        except Corrupt:
            return False

    if dry:
        from impl.objects.loose import loose_names, loose_path

        directory = repository.objects.directory
        names = loose_names(repository.port, directory, repository.algorithm)
        return [loose_path(directory, name) for name in names if is_whole(name)]
    with repository.transaction() as transaction:
        return remove_packed_loose(
            transaction, repository.objects.directory, repository.algorithm, is_whole
        )

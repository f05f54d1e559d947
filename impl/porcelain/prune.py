"""`prune`: remove unreachable loose objects, and what crashed writers left behind."""

from __future__ import annotations

import stat
import sys
from collections.abc import Iterator

from impl.context import Context
from impl.errors import Corrupt, ObjectMissing, UsageError
from impl.objects.loose import loose_names, loose_path
from impl.objects.walk import Walk
from impl.objects.walk_roots import all_roots
from impl.options import parse_options
from impl.porcelain.expiry import parse_expiry
from impl.porcelain.pack_objects import reader
from impl.porcelain.prune_packed import prune_packed
from impl.repository import Repository
from impl.transaction import RepoTransaction

_USAGE = "usage: refgit prune [-n] [-v] [--expire=WHEN]"
_TEMPORARY = "tmp_"


def run(context: Context, arguments: list[str]) -> int:
    """Prune what is older than `--expire` (default: everything); `-n` only prints it.

    Raises UsageError, InvalidInput, OSError, and Corrupt or ObjectMissing if something
    reachable is not whole: then nothing is removed.
    """
    options = parse_options(
        arguments, _USAGE, flags="dry-run|n verbose|v progress no-progress", values="expire"
    )
    if options.rest:
        raise UsageError(_USAGE)
    repository = context.repository
    when = parse_expiry(options.value("expire") or "now", context.now())
    dry = "dry-run" in options.flags
    victims = unreachable_loose(repository, when)
    if dry or "verbose" in options.flags:
        for name in victims:
            context.print(f"{name} {_type_of(repository, name)}")
    with repository.transaction() as transaction:
        for name in victims if not dry else ():
            transaction.remove(loose_path(repository.objects.directory, name))
            transaction.remove_directory(f"{repository.objects.directory}/{name[:2]}")
        for path, is_directory in _leftovers(repository, when):
            if dry or "verbose" in options.flags:
                context.print(f"Removing stale temporary file {path}")
            if not dry:
                _remove(repository, transaction, path, is_directory)
    prune_packed(repository, dry=dry)
    return 0


def unreachable_loose(repository: Repository, when: int) -> list[str]:
    """Loose objects that nothing leads to, last modified before `when` (seconds since the epoch).

    What a younger unreachable object leads to is kept with it: it may be part of something that
    is just being made.
    """
    directory, algorithm = repository.objects.directory, repository.algorithm
    walk = Walk(reader(repository), algorithm.size_bytes)
    roots = all_roots(repository, reflogs=True, index=True)
    reached = {found.name for found in walk.reach(roots)}
    old: list[str] = []
    for name in loose_names(repository.port, directory, algorithm):
        if bytes.fromhex(name) in reached:
            continue
        if repository.port.lstat(loose_path(directory, name)).st_mtime <= when:
            old.append(name)
        else:
            reached.update(_reach_what_is_there(repository, name, reached))
    return [name for name in old if bytes.fromhex(name) not in reached]


def _reach_what_is_there(repository: Repository, name: str, reached: set[bytes]) -> set[bytes]:
    """From an object that need not be complete."""
    found: set[bytes] = set()
    walk = Walk(reader(repository), repository.algorithm.size_bytes)
    try:
        for reached_now in walk.reach([bytes.fromhex(name)], reached):
            found.add(reached_now.name)
    except (Corrupt, ObjectMissing) as error:
        sys.stderr.write(f"warning: {error}\n")
    return found


def _type_of(repository: Repository, name: str) -> str:
    try:
        return repository.objects.read(name)[0]
    except Corrupt:
        return "unknown"


def _leftovers(repository: Repository, when: int) -> Iterator[tuple[str, bool]]:
    """Temporary files and quarantine directories older than `when`, and whether it is one."""
    port, top = repository.port, repository.objects.directory
    fan_outs = [name for name in port.list_directory(top) if len(name) == 2 or name == "pack"]
    for directory in (top, *(f"{top}/{name}" for name in sorted(fan_outs))):
        try:
            names = sorted(port.list_directory(directory))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for name in names:
            if not name.startswith(_TEMPORARY):
                continue
            path = f"{directory}/{name}"
            status = port.lstat(path)
            if status.st_mtime <= when:
                yield path, stat.S_ISDIR(status.st_mode)


def _remove(
    repository: Repository, transaction: RepoTransaction, path: str, is_directory: bool
) -> None:
    """A directory with everything in it, deepest first."""
    if not is_directory:
        transaction.remove(path)
        return
    for name in sorted(repository.port.list_directory(path)):
        below = f"{path}/{name}"
        status = repository.port.lstat(below)
        _remove(repository, transaction, below, stat.S_ISDIR(status.st_mode))
    transaction.remove_directory(path)

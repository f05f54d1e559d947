"""`gc`: references packed, reflogs expired, objects repacked, garbage pruned."""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from impl.context import Context
from impl.durability.port import Port, read_file, write_all
from impl.errors import LockHeld, UsageError
from impl.options import parse_options
from impl.porcelain.expiry import NEVER, parse_expiry
from impl.repository import Repository

_USAGE = "usage: refgit gc [--prune=WHEN | --no-prune] [--aggressive] [--auto] [--force] [-q]"
_DEFAULT_EXPIRY = "2.weeks.ago"
_LOCK_SECONDS = 12 * 3600
"""As git: an older gc.pid is another's no more."""


def run(context: Context, arguments: list[str]) -> int:
    """Run everything, one transaction after the other.

    Raises UsageError, LockHeld (another gc is at work), and what the single commands raise.
    """
    options = parse_options(
        ["--prune=" + _DEFAULT_EXPIRY if it == "--prune" else it for it in arguments],
        _USAGE,
        flags="no-prune aggressive auto force quiet|q cruft no-cruft no-detach detach",
        values="prune",
    )
    if options.rest:
        raise UsageError(_USAGE)
    repository = context.repository
    if "auto" in options.flags and not _is_worth_it(context):
        return 0
    when = options.value("prune") or repository.config.get("gc.pruneexpire") or _DEFAULT_EXPIRY
    if "no-prune" in options.flags:
        when = "never"
    expires = parse_expiry(when, context.now())
    repack = ["-d", "-l", "-q"]
    if "aggressive" in options.flags:
        repack += ["-f", "--depth=50", "--window=250"]
    if when == "now":
        repack.append("-a")
    else:
        repack += ["-A"] if expires == NEVER else ["-A", f"--unpack-unreachable={when}"]
    if repository.config.boolean("repack.writebitmaps", repository.work_tree is None):
        repack.append("-b")
    with _only_one(context, force="force" in options.flags):
        _call(context, "pack_refs", ["--all", "--prune"])
        _call(context, "reflog", ["expire", "--all"])
        _forget_commit_graph(context.repository)
        _call(context, "repack", repack)
        if expires != NEVER:
            _call(context, "prune", [f"--expire={when}"])
    return 0


def _call(context: Context, command: str, arguments: list[str]) -> None:
    importlib.import_module(f"impl.porcelain.{command}").run(context, arguments)


def _forget_commit_graph(repository: Repository) -> None:
    """Remove git's cache of commits, if there is one, before any commit in it goes.

    git writes it anew when it collects garbage; this store makes none. One that names a commit
    that is gone is an error to `git fsck`, and one that is missing costs time only.
    """
    port, info = repository.port, f"{repository.objects.directory}/info"
    chain = f"{info}/commit-graphs"
    with repository.transaction() as transaction:
        for directory in (info, chain):
            # In this order, the list of a chain's files goes before they do.
            for name in _names(port, directory):
                if directory == chain or name == "commit-graph":
                    transaction.remove(f"{directory}/{name}")
                    transaction.remove_directory(chain)


def _names(port: Port, directory: str) -> Sequence[str]:
    try:
        return sorted(port.list_directory(directory))
    except FileNotFoundError:
        return ()


def _is_worth_it(context: Context) -> bool:
    """`--auto`: many loose objects (estimated from one directory, as git does) or many packs."""
    repository = context.repository
    limit = repository.config.integer("gc.auto", 6700)
    if limit <= 0:
        return False
    try:
        sample = repository.port.list_directory(f"{repository.objects.directory}/17")
    except FileNotFoundError:
        sample = ()
    if len(sample) * 256 > limit:
        return True
    pack_limit = repository.config.integer("gc.autopacklimit", 50)
    packs = [pack for pack in repository.objects.packs.packs() if not pack.has(".keep")]
    return 0 < pack_limit < len(packs)


@contextmanager
def _only_one(context: Context, *, force: bool) -> Iterator[None]:
    """Hold gc.pid meanwhile. It guards nothing but time, so it is no part of a transaction.

    Raises LockHeld if another process has it, and lives.
    """
    port, host = context.port, os.uname().nodename
    path = f"{context.repository.git_directory}/gc.pid"
    if _is_there(context, path) and (force or _is_stale(context, path, host)):
        port.unlink(path)
    try:
        descriptor = port.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        raise LockHeld(path) from None
    try:
        write_all(port, descriptor, f"{os.getpid()} {host}".encode())
    finally:
        port.close(descriptor)
    try:
        yield
    finally:
        port.unlink(path)


def _is_there(context: Context, path: str) -> bool:
    try:
        context.port.stat(path)
    except FileNotFoundError:
        return False
    return True


def _is_stale(context: Context, path: str, host: str) -> bool:
    """Whether the process that wrote gc.pid is gone, or it is too old."""
    modified = context.port.stat(path).st_mtime
    process, _, name = read_file(context.port, path).decode("ascii", "replace").partition(" ")
    if context.now() - modified > _LOCK_SECONDS:
        return True
    if name != host or not process.isdecimal():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    return False

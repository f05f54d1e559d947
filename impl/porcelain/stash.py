"""`stash [push | save] [-u] [-k] [-m MESSAGE]`, `stash pop | apply | drop | list | clear | show`.

A stash is a commit of the files as they are, whose parents are HEAD, a commit of the index, and
with -u one of the untracked files. refs/stash is the latest; its reflog holds all the others.
Source: git-stash(1), and the commits that git makes.
"""

import re

from impl.context import Context
from impl.errors import InvalidName, NothingToDo, UsageError
from impl.identity import identity
from impl.options import Options, parse_options
from impl.porcelain.stash_apply import apply_stash
from impl.porcelain.stash_push import push_stash
from impl.refs.reflog import ReflogEntry
from impl.refs.values import RefUpdate, delete
from impl.repository import Repository
from impl.worktree import WorkTree

REFERENCE = "refs/stash"

_USAGE = (
    "usage: refgit stash [push] [-u] [-k] [-q] [-m MESSAGE] | (pop | apply) [--index] [-q] [STASH] "
    "| drop [-q] [STASH] | list | clear"
)
_STASH = re.compile(r"(?:(?:refs/)?stash@\{(\d+)\}|(\d+))")


def run(context: Context, arguments: list[str]) -> int:
    """Put local changes away, or get them back."""
    word = "push"
    if arguments and not arguments[0].startswith("-"):
        word, arguments = arguments[0], arguments[1:]
    options = parse_options(
        arguments,
        _USAGE,
        flags="include-untracked|u keep-index|k quiet|q index",
        values="message|m",
    )
    if word == "save" and options.rest:
        options = options._replace(values={"message": [" ".join(options.rest)]}, rest=[])
        word = "push"
    if word == "push":
        return _push(context, options)
    if word not in _COMMANDS or len(options.rest) > 1:
        raise UsageError(f"fatal: unknown subcommand, or too many arguments: {word}\n{_USAGE}")
    return _COMMANDS[word](context, options)


def _push(context: Context, options: Options) -> int:
    if options.rest:
        raise UsageError(f"fatal: paths are not supported\n{_USAGE}")
    message = push_stash(
        context.repository,
        options.value("message"),
        untracked_too="include-untracked" in options.flags,
        keep_index="keep-index" in options.flags,
    )
    if "quiet" not in options.flags:
        if message is None:
            context.print("No local changes to save")
        else:
            context.print(f"Saved working directory and index state {message}")
    return 0


def _apply(context: Context, options: Options) -> int:
    _bring_back(context, options)
    return 0


def _bring_back(context: Context, options: Options) -> list[bytes]:
    repository = context.repository
    _, entry = _entry(repository, options.rest)
    return apply_stash(repository, entry.new, with_index="index" in options.flags)


def _pop(context: Context, options: Options) -> int:
    paths = _bring_back(context, options)
    repository = context.repository
    with repository.transaction() as transaction:
        # The stash is the only other copy, and it is about to go.
        transaction.restored(WorkTree(repository).root, paths)
        return _drop(context, options)


def _drop(context: Context, options: Options) -> int:
    repository = context.repository
    number, entry = _entry(repository, options.rest)
    drop_stash(repository, number)
    if "quiet" not in options.flags:
        context.print(f"Dropped {REFERENCE}@{{{number}}} ({entry.new})")
    return 0


def _list(context: Context, options: Options) -> int:
    for number, entry in enumerate(reversed(_entries(context.repository))):
        context.output.write(b"stash@{%d}: %s\n" % (number, entry.message))
    return 0


def _clear(context: Context, options: Options) -> int:
    repository = context.repository
    if repository.references.read(REFERENCE) is not None:
        with repository.transaction() as transaction:
            who = identity(repository, "committer")
            repository.references.apply(transaction, [delete(REFERENCE)], who)
    return 0


def drop_stash(repository: Repository, number: int) -> None:
    """Take one stash out of the log; refs/stash follows if it was the latest, or the last."""
    who = identity(repository, "committer")
    references = repository.references
    with repository.transaction() as transaction:
        before = _entries(repository)
        if number >= len(before):
            raise InvalidName(f"stash@{{{number}}} is not a valid reference")
        latest = before[-1].new
        if len(before) == 1:
            references.apply(transaction, [delete(REFERENCE, latest)], who)
            return
        position = len(before) - 1 - number
        after: list[ReflogEntry | None] = [*before]
        after[position] = None
        if position + 1 < len(before):
            # Each entry's old value is the one before it, as `git reflog delete --rewrite` has it.
            above = before[position + 1]
            after[position + 1] = above._replace(old=before[position].old)
        if number == 0:
            update = RefUpdate(REFERENCE, before[-2].new, latest, skip_reflog=True)
            references.apply(transaction, [update], who)
        references.edit_reflog(transaction, REFERENCE, before, after)


def _entries(repository: Repository) -> list[ReflogEntry]:
    if repository.references.read(REFERENCE) is None:
        return []
    return list(repository.references.reflog(REFERENCE))


def _entry(repository: Repository, arguments: list[str]) -> tuple[int, ReflogEntry]:
    """The number and log entry of the stash that is meant."""
    text = arguments[0] if arguments else "0"
    match = _STASH.fullmatch("stash@{0}" if text == "stash" else text)
    if match is None:
        raise InvalidName(f"'{text}' is not a stash reference: write stash@{{N}} or N")
    number = int(match[1] or match[2])
    entries = _entries(repository)
    if not entries:
        raise NothingToDo("No stash entries found.")
    if number >= len(entries):
        raise InvalidName(f"stash@{{{number}}} is not a valid reference")
    return number, entries[-1 - number]


_COMMANDS = {"pop": _pop, "apply": _apply, "drop": _drop, "list": _list, "clear": _clear}

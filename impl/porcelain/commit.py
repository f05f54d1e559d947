"""`commit [-m MESSAGE]… [-F FILE] [-a] [--amend] [--allow-empty] [-q]`.

No editor is started, and so no COMMIT_EDITMSG written: the message comes from the arguments.
"""

import os
from typing import NamedTuple

from impl.context import Context
from impl.durability.port import read_file
from impl.errors import InvalidInput, NothingToDo, UsageError
from impl.identity import identity
from impl.index import LockedIndex
from impl.objects.model import Commit, format_commit
from impl.options import Options, parse_options
from impl.refs.store import Resolved, resolve
from impl.refs.values import ABSENT, RefUpdate
from impl.repository import Repository
from impl.staging import Stager
from impl.trees import write_tree

_USAGE = "usage: refgit commit [-m MESSAGE]... [-F FILE] [-a] [--amend] [--allow-empty] [-q]"
_MERGE_FILES = ("MERGE_HEAD", "MERGE_MSG", "MERGE_MODE")


class _Parents(NamedTuple):
    """What the new commit follows, and what it takes over from one that it replaces."""

    names: tuple[str, ...]
    replaced: Commit | None
    merged: tuple[str, ...] = ()


def run(context: Context, arguments: list[str]) -> int:
    """Record the index as a commit on the current branch, all in one transaction."""
    options = parse_options(
        arguments,
        _USAGE,
        flags="all|a amend allow-empty allow-empty-message quiet|q no-edit no-verify|n no-gpg-sign",
        values="message|m file|F",
    )
    if options.rest:
        raise UsageError(_USAGE)
    repository = context.repository
    with repository.transaction() as transaction:
        locked = LockedIndex(repository)
        if "all" in options.flags:
            Stager(repository, locked.index).add_tracked()
        head = resolve(repository.references, "HEAD")
        parents = _parents(repository, head, "amend" in options.flags)
        message = _message(context, options, parents)
        tree = write_tree(repository, locked.index)
        locked.store()
        _check_changes(repository, tree, parents, options.flags)
        author = bytes(identity(repository, "author"))
        if parents.replaced is not None and "GIT_AUTHOR_DATE" not in context.environment:
            author = parents.replaced.author
        committer = identity(repository, "committer")
        commit = Commit(tree, parents.names, author, bytes(committer), message)
        name = repository.objects.write("commit", format_commit(commit), bulk=False)
        how = " (amend)" if parents.replaced else " (merge)" if parents.merged else ""
        how = how if head.object_name else " (initial)"
        update = RefUpdate(
            "HEAD", name, head.object_name or ABSENT, f"commit{how}: {commit.subject}"
        )
        repository.references.apply(transaction, [update], committer)
        for file in _MERGE_FILES if parents.merged else ():
            transaction.remove(f"{repository.git_directory}/{file}")
    if "quiet" not in options.flags:
        branch = head.name.removeprefix("refs/heads/") if head.name != "HEAD" else "detached HEAD"
        root = "" if parents.names else " (root-commit)"
        context.print(f"[{branch}{root} {name[:7]}] {commit.subject}")
    return 0


def _parents(repository: Repository, head: Resolved, amend: bool) -> _Parents:
    if head.object_name is None:
        if amend:
            raise NothingToDo("You have nothing to amend.")
        return _Parents((), None)
    if amend:
        replaced = repository.objects.commit(head.object_name)
        return _Parents(replaced.parents, replaced)
    try:
        lines = read_file(repository.port, f"{repository.git_directory}/MERGE_HEAD").split()
    except FileNotFoundError:
        return _Parents((head.object_name,), None)
    merged = tuple(line.decode("ascii", "replace") for line in lines)
    for name in merged:
        repository.objects.read_as(name, "commit")
    return _Parents((head.object_name, *merged), None, merged)


def _check_changes(
    repository: Repository, tree: str, parents: _Parents, flags: frozenset[str]
) -> None:
    if "allow-empty" in flags or parents.replaced is not None or parents.merged:
        return
    before = repository.objects.commit(parents.names[0]).tree if parents.names else None
    if tree == (before or repository.objects.empty_tree):
        raise NothingToDo("nothing to commit: add changes first, or use --allow-empty")


def _message(context: Context, options: Options, parents: _Parents) -> bytes:
    file = options.value("file")
    if paragraphs := options.values.get("message"):
        raw = os.fsencode("\n\n".join(paragraphs))
    elif file is not None:
        raw = context.input.read() if file == "-" else read_file(context.port, context.path(file))
    elif parents.replaced is not None:
        raw = parents.replaced.message
    elif parents.merged:
        raw = read_file(context.port, f"{context.repository.git_directory}/MERGE_MSG")
        raw = b"\n".join(line for line in raw.split(b"\n") if not line.startswith(b"#"))
    else:
        raise UsageError(f"fatal: no message: there is no editor, use -m or -F\n{_USAGE}")
    message = strip_space(raw)
    if not message and "allow-empty-message" not in options.flags:
        raise InvalidInput("Aborting commit due to empty commit message.")
    return message


def strip_space(text: bytes) -> bytes:
    """As git-stripspace(1): no blanks at line ends, single empty lines, none at either end."""
    kept: list[bytes] = []
    for line in (line.rstrip(b" \t\r\f\v") for line in text.split(b"\n")):
        if line or (kept and kept[-1]):
            kept.append(line)
    while kept and not kept[-1]:
        kept.pop()
    return b"".join(line + b"\n" for line in kept)

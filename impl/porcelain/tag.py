"""`tag`: list, create and delete tags. See git-tag(1)."""

import os
import sys

from impl.context import Context
from impl.errors import StoreError, UsageError
from impl.identity import identity
from impl.objects.model import Tag, format_tag
from impl.options import Options, parse_options
from impl.porcelain.commit import strip_space
from impl.porcelain.ref_changes import committer
from impl.refs.names import matches_pattern
from impl.refs.values import ABSENT, Action, RefUpdate
from impl.revisions import find_object

_USAGE = (
    "usage: refgit tag [-l] [PATTERN...]\n"
    "   or: refgit tag [-a] [-f] [-m MESSAGE]... NAME [OBJECT]\n"
    "   or: refgit tag -d NAME..."
)
_TAGS = "refs/tags/"
_ABBREVIATION = 7


class TagExists(StoreError):
    """A tag of that name is there already."""


def run(context: Context, arguments: list[str]) -> int:
    """List, create or delete; exits with 1 if a tag could not be deleted."""
    options = parse_options(
        arguments, _USAGE, flags="list|l delete|d annotate|a force|f", values="message|m"
    )
    if "delete" in options.flags:
        return _delete_all(context, options.rest)
    if not options.rest or "list" in options.flags:
        _list(context, options.rest)
        return 0
    if len(options.rest) > 2:
        raise UsageError(_USAGE)
    _create(context, options)
    return 0


def _list(context: Context, patterns: list[str]) -> None:
    for name, _ in sorted(context.repository.references.list(_TAGS)):
        short = name.removeprefix(_TAGS)
        if not patterns or any(matches_pattern(short, pattern) for pattern in patterns):
            context.print(short)


def _create(context: Context, options: Options) -> None:
    repository = context.repository
    short, revision = options.rest[0], options.rest[1] if len(options.rest) == 2 else "HEAD"
    name = _TAGS + short
    named = find_object(repository, revision)
    before = repository.references.read(name)
    if "force" not in options.flags and before is not None:
        raise TagExists(f"tag '{short}' already exists")
    paragraphs = options.values.get("message")
    if "annotate" in options.flags and not paragraphs:
        raise UsageError(f"fatal: no message: there is no editor, use -m\n{_USAGE}")
    with repository.transaction() as transaction:
        if paragraphs:
            kind, _ = repository.objects.read(named)
            message = strip_space(os.fsencode("\n\n".join(paragraphs)))
            tagger = bytes(identity(repository, "committer"))
            tag = Tag(named, kind, os.fsencode(short), tagger, message)
            named = repository.objects.write("tag", format_tag(tag), bulk=False)
        old = None if "force" in options.flags else ABSENT
        repository.references.apply(
            transaction, [RefUpdate(name, named, old)], committer(repository)
        )
    if isinstance(before, str) and before != named:
        context.print(f"Updated tag '{short}' (was {before[:_ABBREVIATION]})")


def _delete_all(context: Context, names: list[str]) -> int:
    if not names:
        raise UsageError(_USAGE)
    repository = context.repository
    code = 0
    for short in names:
        value = repository.references.read(_TAGS + short)
        if not isinstance(value, str):
            sys.stderr.write(f"error: tag '{short}' not found.\n")
            code = 1
            continue
        update = RefUpdate(_TAGS + short, None, value, "", Action.DELETE, no_deref=True)
        with repository.transaction() as transaction:
            repository.references.apply(transaction, [update], committer(repository))
        context.print(f"Deleted tag '{short}' (was {value[:_ABBREVIATION]})")
    return code

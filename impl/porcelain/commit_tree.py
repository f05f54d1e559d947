"""`commit-tree TREE [-p PARENT]… [-m MESSAGE]… [-F FILE]`."""

import os
from collections.abc import Sequence

from impl.context import Context
from impl.durability.port import read_file
from impl.errors import UsageError
from impl.identity import identity
from impl.objects.model import Commit, format_commit
from impl.options import parse_options
from impl.revisions import find_of_type

_USAGE = "usage: refgit commit-tree [-p PARENT]... [-m MESSAGE]... [-F FILE] TREE"


def run(context: Context, arguments: list[str]) -> int:
    """Store a commit and print its name. No reference changes."""
    options = parse_options(arguments, _USAGE, values="p m F")
    if len(options.rest) != 1:
        raise UsageError(_USAGE)
    repository = context.repository
    parents = [find_of_type(repository, name, "commit") for name in options.values.get("p", ())]
    commit = Commit(
        find_of_type(repository, options.rest[0], "tree"),
        tuple(dict.fromkeys(parents)),
        bytes(identity(repository, "author")),
        bytes(identity(repository, "committer")),
        _message(context, options.values.get("m", ()), options.value("F")),
    )
    with repository.transaction():
        name = repository.objects.write("commit", format_commit(commit), bulk=False)
    context.print(name)
    return 0


def _message(context: Context, paragraphs: Sequence[str], file: str | None) -> bytes:
    """As git: paragraphs with empty lines between, each ending its line; or a file, as it is."""
    if paragraphs:
        return os.fsencode("\n".join(text.rstrip("\n") + "\n" for text in paragraphs))
    if file is None or file == "-":
        return context.input.read()
    return read_file(context.port, context.path(file))

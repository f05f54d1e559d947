"""`write-tree [--missing-ok]`."""

from impl.context import Context
from impl.errors import UsageError
from impl.index import LockedIndex
from impl.options import parse_options
from impl.trees import write_tree

_USAGE = "usage: refgit write-tree [--missing-ok]"


def run(context: Context, arguments: list[str]) -> int:
    """Store the index as tree objects, and print the root's name."""
    options = parse_options(arguments, _USAGE, flags="missing-ok")
    if options.rest:
        raise UsageError(_USAGE)
    repository = context.repository
    with repository.transaction():
        locked = LockedIndex(repository)
        name = write_tree(repository, locked.index, missing_ok="missing-ok" in options.flags)
        locked.store()
    context.print(name)
    return 0

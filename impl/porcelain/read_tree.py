"""`read-tree [--empty | [--reset] [-u] TREE]`."""

from impl.checkout import reset_files, reset_index
from impl.context import Context
from impl.errors import UsageError
from impl.index import LockedIndex
from impl.options import parse_options
from impl.revisions import find_of_type

_USAGE = "usage: refgit read-tree (--empty | [--reset] [-u] TREE)"


def run(context: Context, arguments: list[str]) -> int:
    """Make the index, and with -u the files, those of a tree."""
    options = parse_options(arguments, _USAGE, flags="empty reset u")
    is_empty = "empty" in options.flags
    if len(options.rest) != (0 if is_empty else 1) or (is_empty and len(options.flags) > 1):
        raise UsageError(_USAGE)
    repository = context.repository
    with repository.transaction():
        locked = LockedIndex(repository)
        if is_empty:
            locked.index.replace(())
        else:
            tree = find_of_type(repository, options.rest[0], "tree")
            change = reset_files if "u" in options.flags else reset_index
            change(repository, locked.index, tree)
        locked.store(even_if_unchanged=True)
    return 0

"""`ls-files [-c] [-s] [-d] [-m] [-u] [-o [--exclude-standard]] [-z] [--] [PATH…]`."""

from collections.abc import Iterator

from impl.context import Context
from impl.index import Index, read_index
from impl.options import parse_options
from impl.paths import quoted
from impl.pathspec import Pathspec
from impl.worktree import WorkTree

_USAGE = "usage: refgit ls-files [-c] [-s] [-d] [-m] [-u] [-o [--exclude-standard]] [-z] [PATH...]"


def run(context: Context, arguments: list[str]) -> int:
    """List paths of the index, or files that are not in it."""
    options = parse_options(
        arguments,
        _USAGE,
        flags="cached|c stage|s deleted|d modified|m unmerged|u others|o exclude-standard z debug",
    )
    repository = context.repository
    index = read_index(repository)
    root = repository.work_tree or repository.git_directory
    directory = context.directory if repository.work_tree else root
    specs = [Pathspec(root, context.path(argument), argument) for argument in options.rest]
    if not specs and directory != root:
        specs = [Pathspec(root, directory, ".")]
    end = b"\0" if "z" in options.flags else b"\n"
    for path, line in _lines(context, index, options.flags):
        if not specs or any(spec.matches(path) for spec in specs):
            shown = path if "z" in options.flags else quoted(path).encode()
            context.output.write(line + shown + end)
    return 0


def _lines(context: Context, index: Index, flags: frozenset[str]) -> Iterator[tuple[bytes, bytes]]:
    """Path, and what is printed before it."""
    if flags & {"others", "deleted", "modified"}:
        work_tree = WorkTree(context.repository)
        if "others" in flags:
            for path in work_tree.untracked(index, ignored_too="exclude-standard" not in flags):
                yield path, b""
    if not flags & {"others", "deleted", "modified"} or flags & {"cached", "stage", "unmerged"}:
        for entry in index:
            if "unmerged" in flags and not entry.stage:
                continue
            head = f"{entry.mode:06o} {entry.object_name} {entry.stage}\t".encode()
            yield entry.path, head if flags & {"stage", "unmerged"} else b""
    for entry in index if flags & {"deleted", "modified"} else ():
        is_gone = work_tree.lstat(entry.path) is None
        if "deleted" in flags and is_gone:
            yield entry.path, b""
        if "modified" in flags and (is_gone or work_tree.is_modified(entry, index)):
            yield entry.path, b""

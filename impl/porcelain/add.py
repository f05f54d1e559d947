"""`add [-A] [-u] [-f] [-n] [-v] [--] PATHSPEC…`."""

from impl.context import Context
from impl.errors import NothingToDo
from impl.index import LockedIndex
from impl.objects.model import MODE_COMMIT
from impl.options import parse_options
from impl.paths import quoted
from impl.pathspec import Pathspec
from impl.staging import Stager

_USAGE = "usage: refgit add [-A | -u] [-f] [-n] [-v] [--] [PATHSPEC...]"


def run(context: Context, arguments: list[str]) -> int:
    """Put files into the index, and take those out that are gone; all in one transaction."""
    options = parse_options(
        arguments,
        _USAGE,
        flags="all|A no-all|ignore-removal update|u force|f dry-run|n verbose|v",
    )
    flags = options.flags
    repository = context.repository
    if not options.rest and not flags & {"all", "update"}:
        raise NothingToDo("Nothing specified, nothing added.")
    with repository.transaction():
        locked = LockedIndex(repository)
        stager = Stager(repository, locked.index)
        root = stager.work_tree.root
        specs = [Pathspec(root, context.path(argument), argument) for argument in options.rest]
        found = _Selection(stager, specs, flags)
        if "dry-run" not in flags:
            for path in found.gone:
                stager.index.remove(path)
            for path in found.files:
                stager.add(path)
            locked.store()
        if flags & {"verbose", "dry-run"}:
            for path in found.gone:
                context.print(f"remove '{quoted(path)}'")
            for path in found.files:
                context.print(f"add '{quoted(path)}'")
    return 0


class _Selection:
    """What the pathspecs select.

    :ivar files: to be added, in order.
    :ivar gone: tracked, and without a file now.
    """

    def __init__(self, stager: Stager, specs: list[Pathspec], flags: frozenset[str]) -> None:
        """Raises MissingPath for a pathspec that selects nothing, or only what is ignored."""
        index, work_tree = stager.index, stager.work_tree
        unmatched = set(specs)
        tracked: list[bytes] = []
        self.gone: list[bytes] = []

        def selected(path: bytes) -> bool:
            matching = [spec for spec in specs if spec.matches(path)]
            unmatched.difference_update(matching)
            return bool(matching) or not specs

        for path, is_submodule in {e.path: e.mode == MODE_COMMIT for e in index}.items():
            if selected(path) and not is_submodule:
                result = work_tree.lstat(path)
                is_file = result is not None and work_tree.mode(result, None) is not None
                (tracked if is_file else self.gone).append(path)
        new: list[bytes] = []
        if "update" not in flags:
            force = "force" in flags
            for spec in specs or [Pathspec(work_tree.root, work_tree.root, ".")]:
                new += [path for path in spec.untracked(work_tree, index, force) if selected(path)]
        for spec in unmatched:
            spec.check_exists(work_tree)
        self.files = sorted(set(tracked + new))
        if "no-all" in flags:
            self.gone = []

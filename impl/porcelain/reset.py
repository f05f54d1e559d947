"""`reset [--soft | --mixed | --hard] [-q] [COMMIT]`, and `reset [-q] [COMMIT] -- PATH…`."""

from impl.checkout import reset_files, reset_index
from impl.context import Context
from impl.errors import UsageError
from impl.identity import identity
from impl.index import LockedIndex
from impl.index_entry import IndexEntry
from impl.options import parse_options
from impl.pathspec import Pathspec
from impl.refs.store import resolve
from impl.refs.values import RefUpdate
from impl.repository import Repository
from impl.revisions import find_of_type
from impl.transaction import RepoTransaction
from impl.trees import tree_files

_USAGE = "usage: refgit reset [--soft | --mixed | --hard] [-q] [COMMIT] [-- PATH...]"


def run(context: Context, arguments: list[str]) -> int:
    """Set the branch, the index and the files to a commit; or the index of some paths."""
    before, paths = arguments, []
    if "--" in arguments:
        position = arguments.index("--")
        before, paths = arguments[:position], arguments[position + 1 :]
    options = parse_options(before, _USAGE, flags="soft mixed hard quiet|q")
    kinds = options.flags & {"soft", "mixed", "hard"}
    if len(options.rest) > 1 or len(kinds) > 1 or (paths and kinds - {"mixed"}):
        raise UsageError(_USAGE)
    revision = options.rest[0] if options.rest else "HEAD"
    repository = context.repository
    if paths:
        _reset_paths(context, revision, paths)
        return 0
    kind = next(iter(kinds), "mixed")
    commit = reset_to(repository, revision, kind)
    if "quiet" not in options.flags and kind == "hard" and commit:
        context.print(f"HEAD is now at {commit[:7]} {repository.objects.commit(commit).subject}")
    return 0


def reset_to(repository: Repository, revision: str, kind: str) -> str | None:
    """Do it, in one transaction; the commit's name, or None for HEAD of an unborn branch."""
    head = resolve(repository.references, "HEAD")
    if revision == "HEAD" and head.object_name is None:
        commit, tree = None, repository.objects.empty_tree
    else:
        commit = find_of_type(repository, revision, "commit")
        tree = repository.objects.commit(commit).tree
    with repository.transaction() as transaction:
        if kind != "soft":
            locked = LockedIndex(repository)
            if kind == "hard":
                reset_files(repository, locked.index, tree)
            else:
                reset_index(repository, locked.index, tree)
            locked.store()
        if commit is not None and head.object_name is not None:
            record_reset(repository, transaction, head.object_name, commit, revision)
    return commit


def record_reset(
    repository: Repository, transaction: RepoTransaction, old: str, new: str, revision: str
) -> None:
    """Move HEAD's branch, with what git notes of it: ORIG_HEAD, and a line in the reflogs."""
    updates = [
        RefUpdate("ORIG_HEAD", old),
        RefUpdate("HEAD", new, old, f"reset: moving to {revision}"),
    ]
    repository.references.apply(transaction, updates, identity(repository, "committer"))


def _reset_paths(context: Context, revision: str, paths: list[str]) -> None:
    repository = context.repository
    root = repository.work_tree or repository.git_directory
    specs = [Pathspec(root, context.path(path), path) for path in paths]
    files = tree_files(repository, find_of_type(repository, revision, "tree"))
    with repository.transaction():
        locked = LockedIndex(repository)
        index = locked.index
        for path in sorted({entry.path for entry in index} | files.keys()):
            if not any(spec.matches(path) for spec in specs):
                continue
            wanted, known = files.get(path), index.get(path)
            if wanted is None:
                index.remove(path)
            elif known is None or (known.mode, known.object_name) != wanted[::2]:
                index.add(IndexEntry(path, wanted.mode, wanted.object_name))
        locked.store()

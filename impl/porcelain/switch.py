"""`switch`: go to another branch, perhaps a new one. See git-switch(1)."""

from impl.checkout import check_unmodified, reset_files
from impl.context import Context
from impl.errors import StoreError, UsageError
from impl.identity import identity
from impl.index import Index, LockedIndex
from impl.options import Options, parse_options
from impl.refs.names import full_branch_name
from impl.refs.store import resolve
from impl.refs.values import ABSENT, RefUpdate, Symbolic, Value
from impl.repository import Repository
from impl.revisions import find_of_type
from impl.trees import tree_files
from impl.worktree import WorkTree

_USAGE = (
    "usage: refgit switch [-q] BRANCH\n"
    "   or: refgit switch [-q] (-c | -C) NAME [START]\n"
    "   or: refgit switch [-q] --detach [COMMIT]"
)
_BRANCHES = "refs/heads/"


class BranchMissing(StoreError):
    """There is no such branch to switch to, or there is one already to be created."""


def run(context: Context, arguments: list[str]) -> int:
    """Files, index, the new branch and HEAD: all in one transaction."""
    options = parse_options(arguments, _USAGE, flags="quiet|q detach|d", values="create|c C")
    repository = context.repository
    new = options.value("create") or options.value("C")
    if len(options.rest) > 1 or (
        new is None and not options.rest and "detach" not in options.flags
    ):
        raise UsageError(_USAGE)
    target, commit, updates = _destination(repository, options, new)
    head = resolve(repository.references, "HEAD")
    shown = options.rest[0] if new is None and options.rest else new or "HEAD"
    before = head.name.removeprefix(_BRANCHES) if head.name != "HEAD" else head.object_name
    message = f"checkout: moving from {before} to {shown}"
    with repository.transaction() as transaction:
        if commit != head.object_name:
            _bring_files(repository, head.object_name, commit)
        updates.append(RefUpdate("HEAD", target, None, message, no_deref=True))
        repository.references.apply(transaction, updates, identity(repository, "committer"))
    if "quiet" not in options.flags:
        context.print(f"Switched to {'a new branch' if new else 'branch'} '{shown}'")
    return 0


def _destination(
    repository: Repository, options: Options, new: str | None
) -> tuple[Value, str, list[RefUpdate]]:
    """HEAD's new value, the commit that it leads to, and the branch to be made first."""
    start = options.rest[0] if options.rest else "HEAD"
    if new is not None:
        name = full_branch_name(new)
        exists = repository.references.read(name) is not None
        if exists and options.value("C") is None:
            raise BranchMissing(f"a branch named '{new}' already exists")
        commit = find_of_type(repository, start, "commit")
        old = None if exists else ABSENT
        made = RefUpdate(name, commit, old, f"branch: Created from {start}", create_reflog=True)
        return Symbolic(name), commit, [made]
    if "detach" in options.flags:
        commit = find_of_type(repository, start, "commit")
        return commit, commit, []
    name = full_branch_name(start)
    if repository.references.read(name) is None:
        raise BranchMissing(f"invalid reference: {start}")
    return Symbolic(name), find_of_type(repository, name, "commit"), []


def _bring_files(repository: Repository, before: str | None, commit: str) -> None:
    """Make files and index those of a commit. Raises Conflict if local changes are in the way."""
    tree = repository.objects.commit(commit).tree
    locked = LockedIndex(repository)
    check_unmodified(
        WorkTree(repository), locked.index, _changed(repository, locked.index, before, tree)
    )
    reset_files(repository, locked.index, tree)
    locked.store()


def _changed(repository: Repository, index: Index, before: str | None, tree: str) -> list[bytes]:
    """The paths that differ between the index, or the commit that it is of, and a tree."""
    old = {} if before is None else tree_files(repository, repository.objects.commit(before).tree)
    new = tree_files(repository, tree)
    tracked = {entry.path: (entry.mode, entry.object_name) for entry in index}
    paths = old.keys() | new.keys() | tracked.keys()
    return sorted(
        path
        for path in paths
        if tracked.get(path) != (None if path not in new else new[path][::2])
        or old.get(path) != new.get(path)
    )

"""`switch`: go to another branch, perhaps a new one. See git-switch(1)."""

import sys
from collections.abc import Mapping

from impl.checkout import check_unmodified, read_contents, write_file
from impl.context import Context
from impl.errors import Conflict, StoreError, UsageError
from impl.identity import identity
from impl.index import Index, LockedIndex
from impl.objects.model import TreeEntry
from impl.options import Options, parse_options
from impl.paths import printable
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
_ABBREVIATION = 7


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
        sys.stderr.write(_told(target, before, shown, is_new=new is not None))
    return 0


def _told(target: Value, before: str | None, shown: str, *, is_new: bool) -> str:
    if not isinstance(target, Symbolic):
        return f"HEAD is now at {target[:_ABBREVIATION]}\n"
    if before == shown:
        return f"Already on '{shown}'\n"
    return f"Switched to {'a new branch' if is_new else 'branch'} '{shown}'\n"


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
        verb = "Reset to" if exists else "Created from"
        made = RefUpdate(name, commit, old, f"branch: {verb} {start}", create_reflog=True)
        return Symbolic(name), commit, [made]
    if "detach" in options.flags:
        commit = find_of_type(repository, start, "commit")
        return commit, commit, []
    name = full_branch_name(start)
    if repository.references.read(name) is None:
        raise BranchMissing(f"invalid reference: {start}")
    return Symbolic(name), find_of_type(repository, name, "commit"), []


def _bring_files(repository: Repository, before: str | None, commit: str) -> None:
    """Change what differs between two commits, and nothing else: local changes are kept.

    Raises Conflict, before anything is changed, where they are in the way.
    """
    old = {} if before is None else tree_files(repository, repository.objects.commit(before).tree)
    new = tree_files(repository, repository.objects.commit(commit).tree)
    locked = LockedIndex(repository)
    index, work_tree = locked.index, WorkTree(repository)
    if conflicts := index.conflicts():
        raise Conflict(f"'{printable(conflicts[0])}' is not merged: resolve it first")
    paths = _to_change(index, old, new)
    check_unmodified(work_tree, index, paths)
    contents = read_contents(repository, {path: new[path] for path in paths if path in new})
    for path in reversed(paths):
        if path not in new:
            work_tree.remove(path)
            index.remove(path)
    for path in paths:
        if path in new:
            mode, name = new[path].mode, new[path].object_name
            written = write_file(work_tree, path, mode, contents.get(path, b""))
            index.add(written._replace(object_name=name))
    locked.store()


def _to_change(
    index: Index, old: Mapping[bytes, TreeEntry], new: Mapping[bytes, TreeEntry]
) -> list[bytes]:
    """The paths to bring to `new`, sorted. Raises Conflict where the index has a third version.

    As git-read-tree(1)'s two-tree merge: what both commits have alike stays as the index has it.
    """
    paths = []
    for path in sorted(old.keys() | new.keys()):
        entry = index.get(path)
        staged = None if entry is None else (entry.mode, entry.object_name)
        before, after = _identity(old.get(path)), _identity(new.get(path))
        if before == after or staged == after:
            continue
        if staged != before:
            raise Conflict(
                f"Your local changes to '{printable(path)}' would be overwritten: commit them, "
                "or stash them"
            )
        paths.append(path)
    return paths


def _identity(entry: TreeEntry | None) -> tuple[int, str] | None:
    return None if entry is None else (entry.mode, entry.object_name)

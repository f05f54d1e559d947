"""`stash push`: two transactions. The stash is complete, and as durable as the method makes it,
before the first local change is taken away."""

from typing import NamedTuple

from impl.checkout import reset_files
from impl.errors import NothingToDo
from impl.identity import identity
from impl.index import Index, LockedIndex
from impl.index_entry import IndexEntry
from impl.objects.model import Commit, format_commit
from impl.porcelain.reset import record_reset
from impl.refs.store import resolve
from impl.refs.values import RefUpdate
from impl.repository import Repository
from impl.staging import Stager
from impl.trees import write_tree
from impl.worktree import WorkTree, stat_data


class _Stash(NamedTuple):
    """What is being put away."""

    head: str
    message: str
    index_tree: str
    untracked: list[bytes]


def push_stash(
    repository: Repository, message: str | None, *, untracked_too: bool, keep_index: bool
) -> str | None:
    """Record index, files and (if wanted) untracked files; then set files and index back to HEAD.

    Returns the stash's message; None if there is nothing to put away.
    Raises NothingToDo for a repository without a commit, LockHeld, Conflict for an unmerged index.
    """
    head = resolve(repository.references, "HEAD")
    if head.object_name is None:
        raise NothingToDo("You do not have the initial commit yet")
    branch = "(no branch)" if head.name == "HEAD" else head.name.removeprefix("refs/heads/")
    subject = repository.objects.commit(head.object_name).subject
    about = f"{branch}: {head.object_name[:7]} {subject}"
    with repository.transaction():
        stash = _record(repository, head.object_name, branch, about, message, untracked_too)
    if stash is None:
        return None
    with repository.transaction() as transaction:
        work_tree = WorkTree(repository)
        for path in stash.untracked:
            work_tree.remove(path)
        locked = LockedIndex(repository)
        tree = stash.index_tree if keep_index else repository.objects.commit(stash.head).tree
        reset_files(repository, locked.index, tree)
        locked.store()
        record_reset(repository, transaction, stash.head, stash.head, "HEAD")
    return stash.message


def _record(
    repository: Repository,
    head: str,
    branch: str,
    about: str,
    message: str | None,
    untracked_too: bool,
) -> _Stash | None:
    locked = LockedIndex(repository)
    index = locked.index
    modified = WorkTree(repository).refresh(index)
    untracked = list(WorkTree(repository).untracked(index)) if untracked_too else []
    index_tree = write_tree(repository, index)
    if not modified and not untracked and index_tree == repository.objects.commit(head).tree:
        locked.store()
        return None
    parents = [head, _commit(repository, index_tree, (head,), f"index on {about}\n")]
    if untracked_too:
        tree = _tree_of(repository, untracked)
        parents.append(_commit(repository, tree, (), f"untracked files on {about}\n"))
    text = f"WIP on {about}" if message is None else f"On {branch}: {message}"
    files_tree = _tree_of_files(repository, index, modified)
    stash = _commit(repository, files_tree, tuple(parents), text)
    locked.give_back()  # The reset that follows writes it.
    transaction = repository.open_transaction
    assert transaction is not None
    update = RefUpdate("refs/stash", stash, message=text, create_reflog=True)
    repository.references.apply(transaction, [update], identity(repository, "committer"))
    return _Stash(head, text, index_tree, untracked)


def _commit(repository: Repository, tree: str, parents: tuple[str, ...], message: str) -> str:
    author = bytes(identity(repository, "author"))
    committer = bytes(identity(repository, "committer"))
    text = message.encode("utf-8", "surrogateescape")
    commit = Commit(tree, parents, author, committer, text)
    return repository.objects.write("commit", format_commit(commit), bulk=False)


def _tree_of(repository: Repository, paths: list[bytes]) -> str:
    """A tree of untracked files."""
    index = Index()
    work_tree = WorkTree(repository)
    for path in paths:
        result = work_tree.lstat(path)
        mode = None if result is None else work_tree.mode(result, None)
        if result is None or mode is None:
            continue  # It went away meanwhile.
        name = repository.objects.write("blob", work_tree.content(path, mode))
        index.add(IndexEntry(path, mode, name, stat_data(result)))
    return write_tree(repository, index)


def _tree_of_files(repository: Repository, index: Index, modified: list[IndexEntry]) -> str:
    """A tree of the tracked files as they are now; the index itself stays as it is."""
    copy = Index()
    copy.replace(index)
    copy.trees = index.trees.copy()
    stager = Stager(repository, copy)
    for entry in modified:
        if stager.work_tree.lstat(entry.path) is None:
            copy.remove(entry.path)
        else:
            stager.add(entry.path)
    return write_tree(repository, copy)

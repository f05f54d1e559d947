"""`stash apply`: bring a stash's changes into the files, and its untracked files back."""

from impl.checkout import check_unmodified, read_contents, write_file
from impl.errors import CorruptObject
from impl.index import Index, LockedIndex
from impl.index_entry import IndexEntry
from impl.objects.model import TreeEntry
from impl.repository import Repository
from impl.tree_merge import Change, merge_files
from impl.trees import tree_files
from impl.worktree import WorkTree


def apply_stash(repository: Repository, stash: str, *, with_index: bool) -> list[bytes]:
    """Apply a stash to files that have no changes of their own where it has some.

    New files are added to the index, as git does; with `with_index` all that was in the index is.
    Nothing is touched before all is known to succeed. Raises Conflict, Corrupt, ObjectMissing.

    Returns the paths of the files that were written or removed.
    """
    commit = repository.objects.commit(stash)
    if not 2 <= len(commit.parents) <= 3:
        raise CorruptObject(f"'{stash}' is not a stash-like commit: it has no index commit")
    base = _files_of_commit(repository, commit.parents[0])
    with repository.transaction():
        locked = LockedIndex(repository)
        index = locked.index
        work_tree = WorkTree(repository)
        work_tree.refresh(index)
        ours = {e.path: TreeEntry(e.mode, e.path, e.object_name) for e in index if not e.stage}
        changes = merge_files(base, ours, tree_files(repository, commit.tree))
        staged = []
        if with_index:
            index_tree = _files_of_commit(repository, commit.parents[1])
            staged = merge_files(base, ours, index_tree)
        untracked: dict[bytes, TreeEntry] = {}
        if len(commit.parents) == 3:
            untracked = _files_of_commit(repository, commit.parents[2])
        check_unmodified(work_tree, index, [change.path for change in changes])
        check_unmodified(work_tree, index, sorted(untracked))
        wanted = {change.path: change.new for change in changes if change.new is not None}
        contents = read_contents(repository, wanted | untracked)
        _change_files(work_tree, index, changes, contents)
        for path, entry in sorted(untracked.items()):
            write_file(work_tree, path, entry.mode, contents.get(path, b""))
        for change in staged:
            _stage(index, change)
        locked.store()
    return [*(change.path for change in changes), *untracked]


def _files_of_commit(repository: Repository, name: str) -> dict[bytes, TreeEntry]:
    return tree_files(repository, repository.objects.commit(name).tree)


def _change_files(
    work_tree: WorkTree, index: Index, changes: list[Change], contents: dict[bytes, bytes]
) -> None:
    """Removals first: a directory may come in place of a file."""
    for change in changes:
        if change.new is None:
            work_tree.remove(change.path)
    for change in changes:
        if change.new is None:
            continue
        mode = change.new.mode
        inode = write_file(work_tree, change.path, mode, contents.get(change.path, b""))
        if index.get(change.path) is None:
            index.add(inode._replace(object_name=change.new.object_name))


def _stage(index: Index, change: Change) -> None:
    if change.new is None:
        index.remove(change.path)
        return
    known = index.get(change.path)
    if known is None or known.object_name != change.new.object_name:
        index.add(IndexEntry(change.path, change.new.mode, change.new.object_name))

"""Bringing the working tree and the index to a tree: `reset`, `stash`, `read-tree -u`."""

from typing import TYPE_CHECKING

from impl.errors import Conflict
from impl.index import Index
from impl.index_entry import IndexEntry
from impl.objects.model import MODE_COMMIT, TreeEntry
from impl.paths import printable
from impl.trees import index_entries, tree_files
from impl.worktree import WorkTree, stat_data

if TYPE_CHECKING:
    from impl.repository import Repository


def reset_index(repository: "Repository", index: Index, tree: str) -> None:
    """Make the index that of a tree; files are left as they are."""
    entries = index_entries(tree_files(repository, tree), index)
    kept = {entry.key: entry for entry in index}
    if kept != {entry.key: entry for entry in entries}:
        index.replace(entries)


def reset_files(repository: "Repository", index: Index, tree: str) -> None:
    """Make the index *and* all tracked files those of a tree. Local changes are lost.

    All contents are read before the first file is touched: damage shows while nothing is lost.
    """
    work_tree = WorkTree(repository)
    files = tree_files(repository, tree)
    stale = {
        path: entry
        for path, entry in files.items()
        if not _is_current(work_tree, index, entry, path)
    }
    contents = read_contents(repository, stale)
    for path in sorted({entry.path for entry in index} - files.keys(), reverse=True):
        work_tree.remove(path)
    fresh = {
        path: write_file(work_tree, path, stale[path].mode, contents.get(path, b""))
        for path in sorted(stale)
    }
    entries = []
    for entry in index_entries(files, index):
        stat = fresh.get(entry.path)
        entries.append(entry if stat is None else entry._replace(stat=stat.stat))
    if {entry.key: entry for entry in entries} != {entry.key: entry for entry in index}:
        index.replace(entries)


def read_contents(repository: "Repository", files: dict[bytes, TreeEntry]) -> dict[bytes, bytes]:
    """What the files of a tree contain. Raises ObjectMissing, Corrupt."""
    return {
        path: repository.objects.read_as(entry.object_name, "blob")
        for path, entry in files.items()
        if entry.mode != MODE_COMMIT
    }


def write_file(work_tree: WorkTree, path: bytes, mode: int, content: bytes) -> IndexEntry:
    """Write one file; an index entry that has its inode only. A submodule becomes a directory."""
    if mode == MODE_COMMIT:
        work_tree.make_directory(path)
        return IndexEntry(path, mode, "")
    return IndexEntry(path, mode, "", stat_data(work_tree.write(path, mode, content)))


def check_unmodified(work_tree: WorkTree, index: Index, paths: list[bytes]) -> None:
    """Raise Conflict if a file that is about to be changed has changes that are nowhere else."""
    for path in paths:
        entry = index.get(path)
        if entry is None:
            if work_tree.lstat(path) is not None:
                raise Conflict(
                    f"untracked file '{printable(path)}' would be overwritten: move or remove it"
                )
        elif work_tree.is_modified(entry, index):
            raise Conflict(
                f"Your local changes to '{printable(path)}' would be overwritten: commit them, "
                "or stash them"
            )


def _is_current(work_tree: WorkTree, index: Index, entry: TreeEntry, path: bytes) -> bool:
    known = index.get(path)
    return (
        known is not None
        and (known.mode, known.object_name) == (entry.mode, entry.object_name)
        and not work_tree.is_modified(known, index)
    )

"""From the index to tree objects, and back."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from impl.errors import Conflict, HostilePath, ObjectMissing
from impl.index import Index
from impl.index_entry import IndexEntry
from impl.index_trees import CachedTree
from impl.objects.model import MODE_COMMIT, MODE_TREE, TreeEntry, format_tree
from impl.paths import check_path, printable

if TYPE_CHECKING:
    from impl.repository import Repository


def write_tree(repository: "Repository", index: Index, *, missing_ok: bool = False) -> str:
    """Store the trees that the index stands for, within a transaction; the root's name.

    Directories that have not changed since their tree was written are taken from the index' cached
    trees, if that tree is still there and whole. Notes the new ones in the index (`changed`).
    Raises Conflict for an index with unmerged paths, ObjectMissing for a blob that is not there.
    """
    if conflicts := index.conflicts():
        raise Conflict(f"{printable(conflicts[0])}: unmerged: resolve and add it first")
    entries = [entry for entry in index if not entry.intent_to_add]
    writer = _TreeWriter(repository, entries, missing_ok)
    name = writer.write(index.trees, 0, len(entries), b"")
    if len(entries) != len(index):
        index.trees = CachedTree()
    index.changed = index.changed or writer.written > 0
    return name


class _TreeWriter:
    """Walks the sorted entries once, directory by directory."""

    def __init__(
        self, repository: "Repository", entries: Sequence[IndexEntry], missing_ok: bool
    ) -> None:
        """Of all of an index' entries, sorted."""
        self._objects = repository.objects
        self._entries = entries
        self._missing_ok = missing_ok
        self.written = 0

    def write(self, cached: CachedTree, start: int, end: int, prefix: bytes) -> str:
        """The tree of the entries from `start` to before `end`, which all begin with `prefix`."""
        if cached.entry_count == end - start and self._objects.contains(cached.object_name):
            return cached.object_name
        tree_entries: list[TreeEntry] = []
        children: dict[bytes, CachedTree] = {}
        position = start
        while position < end:
            entry = self._entries[position]
            name, slash, _ = entry.path[len(prefix) :].partition(b"/")
            if not slash:
                self._check_blob(entry)
                tree_entries.append(TreeEntry(entry.mode, name, entry.object_name))
                position += 1
                continue
            directory = prefix + name + b"/"
            stop = self._end_of(directory, position, end)
            child = children[name] = cached.children.get(name) or CachedTree()
            tree_entries.append(
                TreeEntry(MODE_TREE, name, self.write(child, position, stop, directory))
            )
            position = stop
        cached.children = children
        cached.object_name = self._objects.write("tree", format_tree(tree_entries))
        cached.entry_count = end - start
        self.written += 1
        return cached.object_name

    def _check_blob(self, entry: IndexEntry) -> None:
        if entry.mode != MODE_COMMIT and not self._missing_ok and not self._is_there(entry):
            raise ObjectMissing(entry.object_name)

    def _is_there(self, entry: IndexEntry) -> bool:
        return self._objects.exists(entry.object_name)

    def _end_of(self, directory: bytes, start: int, end: int) -> int:
        """The position after the last entry below a directory: a binary search."""
        low, high = start + 1, end
        while low < high:
            middle = (low + high) // 2
            if self._entries[middle].path.startswith(directory):
                low = middle + 1
            else:
                high = middle
        return low


def tree_files(repository: "Repository", tree: str, prefix: bytes = b"") -> dict[bytes, TreeEntry]:
    """Every file below a tree, by its whole path. Raises Corrupt, ObjectMissing, HostilePath."""
    found: dict[bytes, TreeEntry] = {}
    waiting = [(tree, prefix)]
    while waiting:
        name, base = waiting.pop()
        for entry in repository.objects.tree(name):
            if b"/" in entry.name:
                raise HostilePath(f"tree {name} has an entry named '{printable(entry.name)}'")
            path = base + entry.name
            check_path(path)
            if entry.is_tree:
                waiting.append((entry.object_name, path + b"/"))
            else:
                found[path] = entry
    return found


def index_entries(files: dict[bytes, TreeEntry], index: Index) -> list[IndexEntry]:
    """A tree's files as index entries, each with what the index knows of the same file's inode."""
    entries = []
    for path, entry in files.items():
        known = index.get(path)
        if known is not None and (known.mode, known.object_name) == (entry.mode, entry.object_name):
            entries.append(known)
        else:
            entries.append(IndexEntry(path, entry.mode, entry.object_name))
    return entries

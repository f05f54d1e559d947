"""Names at a crash: directories with some of the pending changes applied, and their paths."""

from collections.abc import Callable, Iterator

from crashsim.model.operations import Entry, Slot
from crashsim.model.tree import ROOT_INODE, Directory, Tree

Weigh = Callable[[str, int], int]
"""What a path to an inode adds to the digest; 0 where that is not settled yet."""


class Namespace:
    """A tree of names that can be changed, copied cheaply, and knows its digest.

    :ivar paths: every path and the inode there.
    :ivar digest: the sum of the weights of its paths (not reduced).
    """

    __slots__ = ("_entries", "_homes", "_owned", "_weigh", "digest", "paths")

    def __init__(self, base: Tree, weigh: Weigh = lambda _path, _inode: 0) -> None:
        """The names of a tree."""
        self._entries: dict[int, dict[str, int]] = {ROOT_INODE: {}}
        self._homes: dict[int, str] = {ROOT_INODE: ""}
        self._owned: set[int] = set()
        self._weigh = weigh
        self.paths: dict[str, int] = dict(base.inodes)
        self.digest = 0
        for path, node in base.items():
            if isinstance(node, Directory):
                number = base.inodes[path]
                self._homes[number] = path + "/"
                self._entries[number] = {}
        for path, number in base.inodes.items():
            above, _, name = path.rpartition("/")
            parent = base.inodes[above] if above else ROOT_INODE
            self._entries[parent][name] = number

    def copy(self) -> "Namespace":
        """Another one with the same names."""
        twin = Namespace.__new__(Namespace)
        twin._entries = self._entries.copy()
        twin._owned, self._owned = set(), set()
        twin._homes = self._homes.copy()
        twin._weigh = self._weigh
        twin.paths = self.paths.copy()
        twin.digest = self.digest
        return twin

    def weigh(self, weigh: Weigh) -> None:
        """Weigh every path anew."""
        self._weigh = weigh
        self.digest = sum(weigh(path, inode) for path, inode in self.paths.items())

    def _own(self, directory: int) -> dict[str, int]:
        """The entries of a directory, to be changed: no longer shared with a copy."""
        if directory not in self._owned:
            self._owned.add(directory)
            self._entries[directory] = self._entries.get(directory, {}).copy()
        return self._entries[directory]

    def apply(self, entry: Entry) -> None:
        """Apply one change of names, whatever became of those before it."""
        if entry.is_directory:
            self._entries.setdefault(entry.inode, {})
        if entry.removed is not None:
            self._remove(entry.removed)
        if entry.added is not None:
            self._remove(entry.added)
            self._own(entry.added.directory)[entry.added.name] = entry.inode
            home = self._homes.get(entry.added.directory)
            if home is not None:
                self._show(home + entry.added.name, entry.inode)

    def _remove(self, slot: Slot) -> None:
        names = self._entries.get(slot.directory)
        if names is None or slot.name not in names:
            return
        inode = self._own(slot.directory).pop(slot.name)
        home = self._homes.get(slot.directory)
        if home is not None:
            self._hide(home + slot.name, inode)

    def _show(self, path: str, inode: int) -> None:
        for each, number in self._subtree(path, inode):
            self.paths[each] = number
            self.digest += self._weigh(each, number)
            if number in self._entries:
                self._homes[number] = each + "/"

    def _hide(self, path: str, inode: int) -> None:
        for each, number in self._subtree(path, inode):
            del self.paths[each]
            self.digest -= self._weigh(each, number)
            self._homes.pop(number, None)

    def _subtree(self, path: str, inode: int) -> Iterator[tuple[str, int]]:
        yield path, inode
        for name, number in list(self._entries.get(inode, {}).items()):
            yield from self._subtree(f"{path}/{name}", number)

"""The files of a log as it is gone through: what is sure, and what may come out otherwise."""

from collections.abc import Mapping
from dataclasses import dataclass

from crashsim.model.contents import Choice, choices
from crashsim.model.operations import ChangeMode, Entry, FileChange, Operation, Resize, Write
from crashsim.model.persistence import DataRules, World
from crashsim.model.tree import Node, Tree


class FileHistory:
    """One inode: how it was when it was last sure, and what was done to it since."""

    __slots__ = ("_cache", "base", "changes")

    def __init__(self, base: Node) -> None:
        """Begin with an inode that is sure to be like this."""
        self.base = base
        self.changes: list[FileChange] = []
        self._cache: dict[tuple[int, int], tuple[Choice, ...]] = {}

    def copy(self) -> "FileHistory":
        """Another one, to which more can be added."""
        twin = FileHistory(self.base)
        twin.changes = self.changes.copy()
        twin._cache = self._cache
        return twin

    def add(self, change: FileChange) -> None:
        """It was changed."""
        self.changes.append(change)
        self._cache = {}

    def settle(self, floor: int, rules: DataRules) -> None:
        """The changes below `floor` have survived in every world to come."""
        count = sum(each.number < floor for each in self.changes)
        if count:
            sure = self.changes[:count]
            self.base = choices(self.base, sure, floor, floor, rules)[0].node
            del self.changes[:count]
            self._cache = {}

    def choices(
        self, floor: int, horizon: int, rules: DataRules, pieces: int | None
    ) -> tuple[Choice, ...]:
        """Every content that it may have in a world with these limits."""
        key = (
            sum(each.number < floor for each in self.changes),
            sum(each.number < horizon for each in self.changes),
        )
        found = self._cache.get(key)
        if found is None:
            found = choices(self.base, self.changes, floor, horizon, rules, pieces)
            self._cache[key] = found
        return found


class Files:
    """Every inode of a log up to some cut.

    :ivar settled: what is sure of an inode: its node. Others are in `open`.
    """

    def __init__(self, base: Tree, rules: DataRules) -> None:
        """Begin with the files of a durable tree."""
        self._rules = rules
        self.settled: dict[int, Node] = {base.inodes[path]: node for path, node in base.items()}
        self.open: dict[int, FileHistory] = {}

    def observe(self, operation: Operation) -> None:
        """Take the next operation into account."""
        match operation:
            case Entry(created=node) if node is not None:
                self.settled[operation.inode] = node
            case Write() | Resize() | ChangeMode():
                history = self.open.get(operation.inode)
                if history is None:
                    history = FileHistory(self.settled.pop(operation.inode))
                    self.open[operation.inode] = history
                history.add(operation)

    def settle(self, world: World) -> None:
        """Fold in what has survived in every world; this one has the lowest floors."""
        for inode, history in list(self.open.items()):
            history.settle(world.floor(inode), self._rules)
            if not history.changes:
                self.settled[inode] = history.base
                del self.open[inode]

    def snapshot(self) -> "FilesView":
        """The files as they are now, to be used after more of the log was observed."""
        return FilesView(
            self.settled.copy(), {inode: history.copy() for inode, history in self.open.items()}
        )


@dataclass(frozen=True, slots=True)
class FilesView:
    """The files at one cut; fields as of `Files`."""

    settled: Mapping[int, Node]
    open: Mapping[int, FileHistory]

"""From files to the index: what `add`, `update-index`, `commit -a` and `stash` have in common."""

from typing import TYPE_CHECKING

from impl.errors import InvalidInput, MissingPath
from impl.index import Index
from impl.index_entry import IndexEntry
from impl.objects.model import MODE_COMMIT
from impl.paths import check_path, printable
from impl.worktree import WorkTree, stat_data

if TYPE_CHECKING:
    from impl.repository import Repository


class Stager:
    """Puts files into an index, storing their contents as blobs, within a transaction.

    :ivar index: what is changed.
    :ivar work_tree: where the files are.
    """

    def __init__(self, repository: "Repository", index: Index) -> None:
        """Raises NoWorkTree for a bare repository."""
        self._repository = repository
        self.index = index
        self.work_tree = WorkTree(repository)

    def add(self, path: bytes) -> bool:
        """Bring one path of the index up to its file; whether the content is another now.

        An entry that its inode shows to be current is left alone, unless its blob is not there
        (whole): then the crash that lost it is repaired.
        Raises MissingPath, HostilePath, InvalidInput for what is no file, OSError.
        """
        check_path(path)
        self.work_tree.check_no_link_above(path)
        result = self.work_tree.lstat(path)
        if result is None:
            raise MissingPath(f"unable to stat '{printable(path)}': No such file or directory")
        known = self.index.get(path)
        mode = self.work_tree.mode(result, known)
        if mode is None:
            if known is not None and known.mode == MODE_COMMIT:
                return False
            raise InvalidInput(f"'{printable(path)}' is no file: only files and links are added")
        current = (
            known is not None
            and known.mode == mode
            and known.stat == stat_data(result)
            and not known.intent_to_add
            and not self.index.is_racy(known)
            and self._repository.objects.contains(known.object_name)
        )
        if current:
            return False
        name = self._repository.objects.write("blob", self.work_tree.content(path, mode))
        self.index.add(IndexEntry(path, mode, name, stat_data(result)))
        return known is None or (known.mode, known.object_name) != (mode, name)

    def add_tracked(self) -> None:
        """Bring every path of the index up to its file; paths without a file are taken out."""
        for entry in self.index:
            if entry.mode == MODE_COMMIT or entry.skip_worktree or entry.stage > 1:
                continue
            result = self.work_tree.lstat(entry.path)
            if result is None or self.work_tree.mode(result, entry) is None:
                self.index.remove(entry.path)
            else:
                self.add(entry.path)

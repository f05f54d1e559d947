"""Pathspecs: the arguments by which users select files. A path, a directory, or a glob pattern."""

import os
import stat
from collections.abc import Iterator

from impl.errors import MissingPath
from impl.ignore import glob_pattern
from impl.index import Index
from impl.paths import printable, relative_path
from impl.worktree import WorkTree

_GLOB_MARKS = frozenset(b"*?[\\")


class Pathspec:
    """One argument. Magic words (`:(…)`) are not known."""

    def __init__(self, root: str, path: str, argument: str) -> None:
        """
        :param root: of the working tree.
        :param path: the argument as an absolute path.
        :param argument: as it was given, for messages.
        Raises HostilePath for a path outside of the tree, or in the repository.
        """
        self._argument = argument
        self._path = relative_path(root, path)
        is_glob = bool(_GLOB_MARKS.intersection(self._path))
        self._pattern = glob_pattern(self._path, star_crosses_slash=True) if is_glob else None

    def matches(self, path: bytes) -> bool:
        """Whether a file is selected."""
        if not self._path or path == self._path or path.startswith(self._path + b"/"):
            return True
        return (
            self._pattern is not None
            and self._pattern.match(path + b"/") is not None
            and (
                self._pattern.fullmatch(path) is not None
                or any(
                    self._pattern.fullmatch(path[:position]) is not None
                    for position, byte in enumerate(path)
                    if byte == ord("/")
                )
            )
        )

    def untracked(self, work_tree: WorkTree, index: Index, ignored_too: bool) -> Iterator[bytes]:
        """The files that are selected and not in the index."""
        result = work_tree.lstat(self._path) if self._path else None
        if result is not None and not stat.S_ISDIR(result.st_mode):
            if not index.has_path(self._path):
                if not ignored_too and self._is_ignored(work_tree):
                    raise MissingPath(
                        "The following paths are ignored by one of your .gitignore files:\n"
                        f"{printable(self._path)}\nUse -f if you really want to add them."
                    )
                yield self._path
            return
        if self._pattern is None:
            if result is not None and not ignored_too and self._is_ignored(work_tree):
                return
            yield from work_tree.untracked(index, self._path, ignored_too=ignored_too)
            return
        for path in work_tree.untracked(index, ignored_too=ignored_too):
            if self.matches(path):
                yield path

    def _is_ignored(self, work_tree: WorkTree) -> bool:
        """Whether the path, or a directory above it, is ignored."""
        parts = self._path.split(b"/")
        for count in range(1, len(parts)):
            if work_tree.ignores.is_ignored(b"/".join(parts[:count]), is_directory=True):
                return True
        found = work_tree.lstat(self._path)
        is_directory = found is not None and stat.S_ISDIR(found.st_mode)
        return work_tree.ignores.is_ignored(self._path, is_directory)

    def check_exists(self, work_tree: WorkTree) -> None:
        """For a pathspec that selected nothing: raise MissingPath unless it is a directory."""
        if not self._path:
            return
        result = work_tree.lstat(self._path)
        if result is None or not stat.S_ISDIR(result.st_mode):
            raise MissingPath(f"pathspec '{os.fspath(self._argument)}' did not match any files")

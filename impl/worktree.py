"""The working tree: its files compared with the index, read, listed and written."""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import TYPE_CHECKING

from impl.durability.port import read_file, write_all
from impl.errors import HostilePath, StoreError
from impl.index_entry import IndexEntry, StatData
from impl.objects.model import MODE_COMMIT, MODE_EXECUTABLE, MODE_FILE, MODE_LINK
from impl.paths import check_path, is_dot_git, printable

if TYPE_CHECKING:
    from impl.ignore import Ignores
    from impl.index import Index
    from impl.repository import Repository

_WORD = 0xFFFFFFFF


class NoWorkTree(StoreError):
    """The command needs files, and the repository is a bare one."""


def stat_data(result: os.stat_result) -> StatData:
    """What the index remembers of an inode."""
    changed, modified = divmod(result.st_ctime_ns, 10**9), divmod(result.st_mtime_ns, 10**9)
    words = (*changed, *modified, result.st_dev, result.st_ino)
    return StatData(
        *(word & _WORD for word in (*words, result.st_uid, result.st_gid, result.st_size))
    )


class WorkTree:
    """The files of a repository. Paths are the index': bytes, relative, with slashes.

    :ivar root: the directory that they are in.
    """

    def __init__(self, repository: "Repository") -> None:
        """Raises NoWorkTree for a bare repository."""
        if repository.work_tree is None:
            raise NoWorkTree("this operation must be run in a work tree")
        self._repository = repository
        self._port = repository.port
        self.root = repository.work_tree
        self._real_directories: set[bytes] = set()

    @cached_property
    def _trusts_mode(self) -> bool:
        return self._repository.config.boolean("core.filemode", True)

    @cached_property
    def ignores(self) -> "Ignores":
        """The exclude files: core.excludesFile, info/exclude, and .gitignore everywhere."""
        from impl.ignore import Ignores

        repository = self._repository
        home = repository.environment.get("HOME", "")
        base = repository.environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
        configured = repository.config.get("core.excludesfile") or f"{base}/git/ignore"
        if configured.startswith("~/"):
            configured = home + configured[1:]
        common = [configured, f"{repository.git_directory}/info/exclude"]
        return Ignores(self._port, self.root, common)

    def absolute(self, path: bytes) -> str:
        """Where a file is."""
        return f"{self.root}/{os.fsdecode(path)}"

    def lstat(self, path: bytes) -> os.stat_result | None:
        """The inode of a path; None if nothing is there, or it is beyond a symbolic link."""
        if not self._is_in_real_directories(path):
            return None
        try:
            return self._port.lstat(self.absolute(path))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _is_in_real_directories(self, path: bytes) -> bool:
        """Whether the directories above a path are directories, none of them a link."""
        slash = path.rfind(b"/")
        if slash < 0:
            return True
        directory = path[:slash]
        if directory in self._real_directories:
            return True
        if not self._is_in_real_directories(directory):
            return False
        try:
            found = self._port.lstat(self.absolute(directory))
        except (FileNotFoundError, NotADirectoryError):
            return False
        if stat.S_ISDIR(found.st_mode):
            self._real_directories.add(directory)
            return True
        return False

    def check_no_link_above(self, path: bytes) -> None:
        """Raise HostilePath if a directory above the path is a symbolic link or a file."""
        if not self._is_in_real_directories(path):
            raise HostilePath(f"'{printable(path)}' is beyond a symbolic link, or a file")

    def mode(self, result: os.stat_result, known: IndexEntry | None) -> int | None:
        """The mode that a file is tracked with; None for what cannot be (sockets, devices)."""
        if stat.S_ISLNK(result.st_mode):
            return MODE_LINK
        if not stat.S_ISREG(result.st_mode):
            return None
        if not self._trusts_mode:
            return known.mode if known and known.mode != MODE_LINK else MODE_FILE
        return MODE_EXECUTABLE if result.st_mode & stat.S_IXUSR else MODE_FILE

    def content(self, path: bytes, mode: int) -> bytes:
        """What a file contains; of a symbolic link, where it points to. Raises OSError."""
        if mode == MODE_LINK:
            return os.fsencode(self._port.read_link(self.absolute(path)))
        return read_file(self._port, self.absolute(path))

    def is_modified(self, entry: IndexEntry, index: "Index") -> bool:
        """Whether the file differs from the index: by its inode, by its content where in doubt."""
        result = self.lstat(entry.path)
        if result is None:
            return True
        if entry.mode == MODE_COMMIT:
            return not stat.S_ISDIR(result.st_mode)
        if self.mode(result, entry) != entry.mode:
            return True
        if stat_data(result) == entry.stat and not index.is_racy(entry):
            return False
        return self._content_differs(entry)

    def _content_differs(self, entry: IndexEntry) -> bool:
        content = self.content(entry.path, entry.mode)
        return self._repository.algorithm.object_name("blob", content) != entry.object_name

    def refresh(self, index: "Index") -> list[IndexEntry]:
        """Renew what the index remembers of unchanged files; the entries that are modified."""
        modified = []
        for entry in index:
            if entry.stage or entry.skip_worktree or entry.assume_valid:
                continue
            if self.is_modified(entry, index):
                modified.append(entry)
                continue
            result = self.lstat(entry.path)
            if result is not None and entry.mode != MODE_COMMIT:
                index.add(entry._replace(stat=stat_data(result)))
        return modified

    def forget_racy(self, index: "Index") -> None:
        """Before the index gets a newer time: entries that only its old time showed to be in doubt,
        and that are modified indeed, lose their size, so that they stay in doubt."""
        for entry in index.racy_entries():
            result = self.lstat(entry.path)
            if (
                result is not None
                and stat_data(result) == entry.stat
                and entry.mode != MODE_COMMIT
                and self._content_differs(entry)
            ):
                index.add(entry._replace(stat=entry.stat._replace(size_bytes=0)))

    def untracked(
        self, index: "Index", directory: bytes = b"", *, ignored_too: bool = False
    ) -> Iterator[bytes]:
        """The files that are not in the index, in order; without ignored ones, unless asked for.

        Repositories within the tree are left alone.
        """
        prefix = directory + b"/" if directory else b""
        names = sorted(os.fsencode(name) for name in self._list(directory))
        for name in names:
            path = prefix + name
            if is_dot_git(name):
                continue
            try:
                result = self._port.lstat(self.absolute(path))
            except FileNotFoundError:
                continue
            is_directory = stat.S_ISDIR(result.st_mode)
            tracked = index.has_path(path) or (is_directory and index.is_directory(path))
            if not tracked and not ignored_too and self.ignores.is_ignored(path, is_directory):
                continue
            if is_directory:
                if not self._is_repository(path):
                    yield from self.untracked(index, path, ignored_too=ignored_too)
            elif not tracked and self.mode(result, None) is not None:
                yield path

    def _list(self, directory: bytes) -> Iterable[str]:
        try:
            return self._port.list_directory(self.absolute(directory) if directory else self.root)
        except (FileNotFoundError, NotADirectoryError):
            return ()

    def _is_repository(self, path: bytes) -> bool:
        try:
            self._port.lstat(f"{self.absolute(path)}/.git")
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def write(self, path: bytes, mode: int, content: bytes) -> os.stat_result:
        """Put a file in place of what is there; its inode. Raises HostilePath, OSError."""
        check_path(path)
        self._make_directories_above(path)
        target = self.absolute(path)
        self._unlink(target)
        if mode == MODE_LINK:
            self._port.symlink(os.fsdecode(content), target)
            return self._port.lstat(target)
        permissions = 0o777 if mode == MODE_EXECUTABLE else 0o666
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        descriptor = self._port.open(target, flags, permissions)
        try:
            write_all(self._port, descriptor, content)
            return self._port.fstat(descriptor)
        finally:
            self._port.close(descriptor)

    def _make_directories_above(self, path: bytes) -> None:
        parts = path.split(b"/")[:-1]
        for count in range(1, len(parts) + 1):
            directory = b"/".join(parts[:count])
            if directory in self._real_directories:
                continue
            target = self.absolute(directory)
            try:
                if not stat.S_ISDIR(self._port.lstat(target).st_mode):
                    raise HostilePath(
                        f"'{printable(path)}' cannot be written: '{printable(directory)}' is a "
                        "link or a file"
                    )
            except FileNotFoundError:
                self._port.make_directory(target)
            self._real_directories.add(directory)

    def make_directory(self, path: bytes) -> None:
        """A directory (for a submodule), unless there is one. Raises HostilePath, OSError."""
        check_path(path)
        self._make_directories_above(path + b"/")

    def remove(self, path: bytes) -> None:
        """Unlink a file, and the directories above that are empty then. Raises HostilePath."""
        check_path(path)
        if not self._is_in_real_directories(path):
            return
        self._unlink(self.absolute(path))
        directory = path[: max(path.rfind(b"/"), 0)]
        while directory:
            try:
                self._port.remove_directory(self.absolute(directory))
            except OSError as error:
                if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT, errno.EBUSY):
                    return
                raise
            self._real_directories.discard(directory)
            directory = directory[: max(directory.rfind(b"/"), 0)]

    def _unlink(self, target: str) -> None:
        try:
            self._port.unlink(target)
        except FileNotFoundError:
            return

"""The system calls that change or show names: mkdir, rmdir, link, symlink, unlink, rename, stat."""

import errno
import os
from collections.abc import Sequence

from crashsim.model.inodes import Found, Inode
from crashsim.model.machine import PATH_BYTES_LIMIT, Machine, failure
from crashsim.model.operations import Entry, Slot


class NameCalls(Machine):
    """System calls by path, with Linux's errors for a process that may do everything."""

    def add_entry(
        self, verb: str, path: str, found: Found, inode: Inode, *, is_new: bool = True
    ) -> None:
        """Give an inode a name, and write it down."""
        created = inode.node() if is_new else None
        self.enter(found.directory, found.name, inode)
        slot = Slot(found.directory.number, found.name)
        is_directory = inode.entries is not None
        self.record(
            lambda number: Entry(
                number,
                inode.number,
                f"{verb} {path}",
                added=slot,
                created=created,
                is_directory=is_directory,
            )
        )

    def _remove_entry(self, verb: str, path: str, found: Found) -> None:
        inode = self.leave(found.directory, found.name)
        self.forget(inode)
        slot = Slot(found.directory.number, found.name)
        is_directory = inode.entries is not None
        self.record(
            lambda number: Entry(
                number, inode.number, f"{verb} {path}", removed=slot, is_directory=is_directory
            )
        )

    def _new_name(self, path: str, *, may_have_slash: bool = False) -> Found:
        """Where a new name goes. Raises OSError: as `walk`, and EEXIST."""
        found = self.walk(path, follow=False)
        if not found.is_plain or found.inode is not None:
            raise failure(errno.EEXIST, path)
        if found.slash and not may_have_slash:
            raise failure(errno.ENOENT, path)
        return found

    def make_directory(self, path: str, mode: int = 0o777) -> None:
        """mkdir(2)."""
        found = self._new_name(path, may_have_slash=True)
        self.add_entry(
            "mkdir", path, found, self.new_inode(mode & 0o1777 & ~self.umask, entries={})
        )

    def remove_directory(self, path: str) -> None:
        """rmdir(2)."""
        found = self.walk(path, follow=False)
        if not found.is_plain:
            number = {".": errno.EINVAL, "..": errno.ENOTEMPTY, "/": errno.EBUSY}[found.name]
            raise failure(number, path)
        if found.inode is None:
            raise failure(errno.ENOENT, path)
        if found.inode.entries is None:
            raise failure(errno.ENOTDIR, path)
        if self.is_mount_point(found.inode):
            raise failure(errno.EBUSY, path)
        if found.inode.entries:
            raise failure(errno.ENOTEMPTY, path)
        self._remove_entry("rmdir", path, found)

    def unlink(self, path: str) -> None:
        """unlink(2). The file lives on while it is open."""
        found = self.walk(path, follow=False)
        if not found.is_plain:
            raise failure(errno.EISDIR, path)
        if found.inode is None:
            raise failure(errno.ENOENT, path)
        if found.inode.entries is not None:
            raise failure(errno.EISDIR, path)
        if found.slash:
            raise failure(errno.ENOTDIR, path)
        self._remove_entry("unlink", path, found)

    def link(self, source: str, target: str) -> None:
        """link(2): a symbolic link gets a second name itself."""
        inode = self.lookup(source, follow=False)
        found = self._new_name(target)
        if inode.device != found.directory.device:
            raise failure(errno.EXDEV, source)
        if inode.entries is not None:
            raise failure(errno.EPERM, source)
        self.add_entry(f"link {source} to", target, found, inode, is_new=False)

    def symlink(self, content: str, path: str) -> None:
        """symlink(2)."""
        if "\0" in content:
            raise ValueError("embedded null byte")
        if not content:
            raise failure(errno.ENOENT, path)
        if len(os.fsencode(content)) >= PATH_BYTES_LIMIT:
            raise failure(errno.ENAMETOOLONG, path)
        found = self._new_name(path)
        self.add_entry("symlink", path, found, self.new_inode(0o777, target=content))

    def read_link(self, path: str) -> str:
        """readlink(2)."""
        inode = self.lookup(path, follow=False)
        if inode.target is None:
            raise failure(errno.EINVAL, path)
        return inode.target

    def rename(self, source: str, target: str) -> None:
        """rename(2)."""
        old, new = self._rename_ends(source, target)
        inode, replaced = old.inode, new.inode
        if inode is None or inode is replaced:
            return
        if any(each is not None and self.is_mount_point(each) for each in (inode, replaced)):
            raise failure(errno.EBUSY, source)
        if replaced is not None:
            if inode.entries is not None:
                if replaced.entries is None:
                    raise failure(errno.ENOTDIR, target)
                if replaced.entries:
                    raise failure(errno.ENOTEMPTY, target)
            elif replaced.entries is not None:
                raise failure(errno.EISDIR, target)
            self.forget(self.leave(new.directory, new.name))
        self.leave(old.directory, old.name)
        self.enter(new.directory, new.name, inode)
        self.record(
            lambda number: Entry(
                number,
                inode.number,
                f"rename {source} to {target}",
                removed=Slot(old.directory.number, old.name),
                added=Slot(new.directory.number, new.name),
                replaced=None if replaced is None else replaced.number,
                is_directory=inode.entries is not None,
            )
        )

    def _rename_ends(self, source: str, target: str) -> tuple[Found, Found]:
        """Both ends of a rename, as far as they can be judged by their paths."""
        if not source or not target:
            raise failure(errno.ENOENT, source)
        ends = [path.rstrip("/").rpartition("/") for path in (source, target)]
        if len({self.lookup(f"{above}/").device for above, _, _ in ends}) > 1:
            raise failure(errno.EXDEV, source)
        if any(name in ("", ".", "..") for _, _, name in ends):
            raise failure(errno.EBUSY, source)
        old = self.walk(source, follow=False)
        if old.inode is None:
            raise failure(errno.ENOENT, source)
        new = self.walk(target, follow=False)
        if old.inode.entries is None and (old.slash or new.slash):
            raise failure(errno.ENOTDIR, source)
        if old.directory is not new.directory:
            if old.inode in self._way_up(new.directory):
                raise failure(errno.EINVAL, source)
            if new.inode is not None and new.inode in self._way_up(old.directory):
                raise failure(errno.ENOTEMPTY, target)
        return old, new

    def _way_up(self, directory: Inode) -> list[Inode]:
        """A directory and all those that it is in."""
        way = [directory]
        while way[-1] is not self.root:
            way.append(self.inodes[way[-1].parent])
        return way

    def stat(self, path: str) -> os.stat_result:
        """stat(2)."""
        return self.status(self.lookup(path))

    def lstat(self, path: str) -> os.stat_result:
        """lstat(2)."""
        return self.status(self.lookup(path, follow=False))

    def list_directory(self, path: str) -> Sequence[str]:
        """getdents(2) to its end, without `.` and `..`."""
        inode = self.lookup(path)
        if inode.entries is None:
            raise failure(errno.ENOTDIR, path)
        return list(inode.entries)

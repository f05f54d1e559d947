"""A simulated operating system: the port of `impl`, in memory, with a log to crash it from."""

import errno
import os
from dataclasses import dataclass, field

from crashsim.model.inodes import Found, Inode
from crashsim.model.machine import failure
from crashsim.model.names import NameCalls
from crashsim.model.operations import (
    ChangeMode,
    Close,
    FailedSync,
    Promise,
    Resize,
    Scope,
    Sync,
    Write,
)

Bytes = bytes | bytearray | memoryview

FIRST_DESCRIPTOR = 3
WRITE_OUT_AND_WAIT = 1 | 2 | 4
"""SYNC_FILE_RANGE_WAIT_BEFORE | _WRITE | _WAIT_AFTER, as in <fcntl.h>."""
_DIRECTORY_ONLY_TEMPORARY = os.O_TMPFILE & ~os.O_DIRECTORY


@dataclass(slots=True)
class _OpenFile:
    """What a descriptor stands for."""

    inode: Inode
    flags: int
    path: str
    position: int = 0

    @property
    def may_read(self) -> bool:
        return self.flags & os.O_ACCMODE != os.O_WRONLY

    @property
    def may_write(self) -> bool:
        return self.flags & os.O_ACCMODE != os.O_RDONLY


@dataclass
class Simulated(NameCalls):
    """One machine, from power-on to the crash; `impl`'s `Port`, structurally.

    It starts with the tree `base`, which is durable. The process may do everything; the working
    directory is the root. Nothing that a sync does can be seen by the programs that run: what it
    means is a persistence model's to say, from the log (`crash_states`).
    """

    _files: dict[int, _OpenFile] = field(init=False, default_factory=dict)

    def promise(self, value: object) -> None:
        """Note in the log what must hold from here on."""
        self.record(lambda number: Promise(number, value))

    def _file(self, descriptor: int) -> _OpenFile:
        file = self._files.get(descriptor)
        if file is None:
            raise failure(errno.EBADF)
        return file

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        """open(2). O_TMPFILE is not supported: EOPNOTSUPP, as on some filesystems."""
        if flags & _DIRECTORY_ONLY_TEMPORARY:
            raise failure(errno.EOPNOTSUPP, path)
        exclusive = bool(flags & os.O_CREAT and flags & os.O_EXCL)
        follow = path.endswith("/") or not (flags & os.O_NOFOLLOW or exclusive)
        found = self.walk(path, follow=follow)
        inode = self._opened(path, flags, found, exclusive=exclusive)
        if inode is None:
            inode = self.new_inode(mode & 0o7777 & ~self.umask, content=bytearray())
            self.add_entry("create", path, found, inode)
        elif flags & os.O_TRUNC:
            self._resize(inode, path, 0)
        descriptor = FIRST_DESCRIPTOR
        while descriptor in self._files:
            descriptor += 1
        self._files[descriptor] = _OpenFile(inode, flags, path)
        inode.descriptors += 1
        return descriptor

    @staticmethod
    def _opened(path: str, flags: int, found: Found, *, exclusive: bool) -> Inode | None:
        """What open(2) opens; None where it is to create a file."""
        inode = found.inode
        writes = flags & os.O_ACCMODE != os.O_RDONLY or flags & os.O_TRUNC
        if flags & os.O_CREAT and flags & os.O_DIRECTORY:
            raise failure(errno.EINVAL, path)
        if flags & os.O_CREAT and found.slash and found.is_plain:
            raise failure(errno.EISDIR, path)
        if inode is None:
            if flags & os.O_CREAT:
                return None
            raise failure(errno.ENOENT, path)
        if exclusive:
            raise failure(errno.EEXIST, path)
        if inode.entries is not None and (writes or flags & os.O_CREAT):
            raise failure(errno.EISDIR, path)
        if inode.entries is None and (flags & os.O_DIRECTORY or found.slash):
            raise failure(errno.ENOTDIR, path)
        if inode.target is not None:
            raise failure(errno.ELOOP, path)
        return inode

    def close(self, descriptor: int) -> None:
        """close(2)."""
        file = self._file(descriptor)
        del self._files[descriptor]
        inode = file.inode
        inode.descriptors -= 1
        if inode.was_emptied:
            inode.was_emptied = False
            self.record(lambda number: Close(number, inode.number, file.path))
        self.forget(inode)

    def _readable(self, descriptor: int) -> tuple[_OpenFile, bytearray]:
        file = self._file(descriptor)
        if not file.may_read:
            raise failure(errno.EBADF)
        if file.inode.content is None:
            raise failure(errno.EISDIR)
        return file, file.inode.content

    def read(self, descriptor: int, count: int) -> bytes:
        """read(2)."""
        if count < 0:
            raise failure(errno.EINVAL)
        file, content = self._readable(descriptor)
        data = bytes(content[file.position : file.position + count])
        file.position += len(data)
        return data

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        """pread(2)."""
        if count < 0 or offset < 0:
            raise failure(errno.EINVAL)
        _, content = self._readable(descriptor)
        return bytes(content[offset : offset + count])

    def write(self, descriptor: int, data: Bytes) -> int:
        """write(2); it takes everything that it is given."""
        file = self._file(descriptor)
        inode, content = file.inode, file.inode.content
        if not file.may_write or content is None:
            raise failure(errno.EBADF)
        taken = bytes(data)
        if not taken:
            return 0
        size = len(content)
        offset = size if file.flags & os.O_APPEND else file.position
        if offset > size:
            content.extend(bytes(offset - size))
        content[offset : offset + len(taken)] = taken
        file.position = offset + len(taken)
        inode.modification_ns = inode.change_ns = self.tick()
        number = self.record(
            lambda number: Write(number, inode.number, file.path, offset, taken, size)
        )
        if inode.dirty_since is None:
            inode.dirty_since = number
        return len(taken)

    def truncate(self, descriptor: int, length: int) -> None:
        """ftruncate(2)."""
        if length < 0:
            raise failure(errno.EINVAL)
        file = self._file(descriptor)
        if not file.may_write or file.inode.content is None:
            raise failure(errno.EINVAL)
        self._resize(file.inode, file.path, length)

    def _resize(self, inode: Inode, path: str, length: int) -> None:
        content = inode.content
        if content is None:
            raise failure(errno.EINVAL, path)
        size = len(content)
        inode.modification_ns = inode.change_ns = self.tick()
        if length != size:
            del content[length:]
            content.extend(bytes(length - len(content)))
            inode.was_emptied = inode.was_emptied or length == 0
            self.record(lambda number: Resize(number, inode.number, path, length, size))

    def map(self, descriptor: int, length: int) -> Bytes:
        """mmap(2), private and read-only: the content as it is now.

        :raises ValueError: `length` is more than the file has (as Python's own mmap does).
        """
        file = self._file(descriptor)
        if length <= 0:
            raise failure(errno.EINVAL)
        content = file.inode.content
        if content is None:
            raise failure(errno.ENODEV)
        if length > len(content):
            raise ValueError("mmap length is greater than file size")
        if not file.may_read:
            raise failure(errno.EACCES)
        return memoryview(bytes(content[:length]))

    def fstat(self, descriptor: int) -> os.stat_result:
        """fstat(2)."""
        return self.status(self._file(descriptor).inode)

    def set_times(self, descriptor: int, access_ns: int, modification_ns: int) -> None:
        """futimens(2)."""
        inode = self._file(descriptor).inode
        inode.access_ns, inode.modification_ns = access_ns, modification_ns
        inode.change_ns = self.tick()

    def change_mode(self, descriptor: int, mode: int) -> None:
        """fchmod(2)."""
        file = self._file(descriptor)
        inode, bits = file.inode, mode & 0o7777
        inode.change_ns = self.tick()
        if bits != inode.mode:
            inode.mode = bits
            self.record(lambda number: ChangeMode(number, inode.number, file.path, bits))

    def _sync(self, descriptor: int, scope: Scope) -> None:
        file = self._file(descriptor)
        inode = file.inode
        is_directory = inode.entries is not None
        self.record(lambda number: Sync(number, scope, inode.number, file.path, is_directory))
        if scope is not Scope.PAGES:
            for each in self._synced(inode, scope):
                each.dirty_since = None

    def _synced(self, inode: Inode, scope: Scope) -> list[Inode]:
        if scope is not Scope.FILESYSTEM:
            return [inode]
        return [each for each in self.inodes.values() if each.device == inode.device]

    def fail_sync(self, descriptor: int, scope: Scope) -> None:
        """A sync that fails, to be followed by its error: what it was to write is dropped.

        As Linux does it: the pages are marked clean, so that a later fsync(2) returns 0 without
        writing them, while read(2) still shows them. What each filesystem does: docs/io-errors.md.
        """
        file = self._file(descriptor)
        inode = file.inode
        lost = []
        for each in self._synced(inode, scope):
            if each.dirty_since is not None:
                lost.append((each.number, each.dirty_since))
                each.dirty_since = None
        gone = tuple(lost)
        self.record(lambda number: FailedSync(number, scope, inode.number, file.path, gone))

    def fsync(self, descriptor: int) -> None:
        """fsync(2)."""
        self._sync(descriptor, Scope.FILE)

    def fdatasync(self, descriptor: int) -> None:
        """fdatasync(2)."""
        self._sync(descriptor, Scope.DATA)

    def sync_file_range(self, descriptor: int, offset: int, count: int, flags: int) -> None:
        """sync_file_range(2)."""
        file = self._file(descriptor)
        if flags & ~WRITE_OUT_AND_WAIT or offset < 0 or count < 0:
            raise failure(errno.EINVAL)
        content = file.inode.content
        covers = content is not None and offset == 0 and (count == 0 or count >= len(content))
        if covers and flags == WRITE_OUT_AND_WAIT:
            self._sync(descriptor, Scope.PAGES)

    def sync_filesystem(self, descriptor: int) -> None:
        """syncfs(2)."""
        self._sync(descriptor, Scope.FILESYSTEM)

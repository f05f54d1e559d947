"""The inside of the simulated operating system: the way from a path to an inode, the log."""

import errno
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass, field

from crashsim.model.inodes import FIRST_DEVICE, Found, Inode
from crashsim.model.operations import Log, Operation
from crashsim.model.tree import ROOT_INODE, Directory, File, Node, Symlink, Tree, digest_of

PATH_BYTES_LIMIT = 4096
NAME_BYTES_LIMIT = 255
SYMLINK_HOPS_LIMIT = 40
"""path_resolution(7); Linux's MAXSYMLINKS."""

CLOCK_START_NS = 1_600_000_000 * 10**9
CLOCK_STEP_NS = 1_000_000


def failure(number: int, path: str | None = None) -> OSError:
    """The error that the system call would give."""
    if path is None:
        return OSError(number, os.strerror(number))
    return OSError(number, os.strerror(number), path)


@dataclass
class Machine:
    """The state that the system calls share. Everything in it is lost at a crash but the log.

    :ivar umask: as of umask(2).
    :ivar clock_ns: the time of day, which goes on by a step with every change.
    :ivar mounts: directories of `base`, by their paths in it: at each a filesystem of its own is
        mounted, on a device of its own, and it holds what is below.
    """

    base: Tree = field(default_factory=lambda: Tree.of({}))
    umask: int = 0o022
    clock_ns: int = CLOCK_START_NS
    mounts: tuple[str, ...] = ()
    inodes: dict[int, Inode] = field(init=False, default_factory=dict)
    operations: list[Operation] = field(init=False, default_factory=list)
    _next_number: int = field(init=False, default=0)
    _next_inode: int = field(init=False, default=ROOT_INODE + 1)

    def __post_init__(self) -> None:
        """Boot."""
        root = self.new_inode(0o755, entries={}, number=ROOT_INODE)
        root.links = 2
        for path in sorted(self.base):
            self._boot(path, self.base[path], self.base.inodes[path])
        for path in self.mounts:
            if path not in self.base:
                raise ValueError(f"nothing can be mounted at {path!r}, which is not there")

    def _boot(self, path: str, node: Node, number: int) -> None:
        """Put back one path of the tree that the machine starts with."""
        parent = self.root
        *above, name = path.split("/")
        for step in above:
            parent = self.inodes[self.entries_of(parent)[step]]
        inode = self.inodes.get(number)
        if inode is None:
            match node:
                case File():
                    inode = self.new_inode(
                        node.mode, content=bytearray(node.content), number=number
                    )
                case Directory():
                    inode = self.new_inode(node.mode, entries={}, number=number)
                case Symlink():
                    inode = self.new_inode(0o777, target=node.content, number=number)
        self.enter(parent, name, inode)
        if path in self.mounts:
            inode.device = FIRST_DEVICE + 1 + self.mounts.index(path)

    @property
    def root(self) -> Inode:
        """The root directory."""
        return self.inodes[ROOT_INODE]

    @property
    def log(self) -> Log:
        """What happened since the start."""
        mounts = tuple(self.base.inodes[path] for path in self.mounts)
        return Log(self.base, tuple(self.operations), mounts)

    def record(self, make: Callable[[int], Operation]) -> int:
        """Add the operation that `make` gives for the next number to the log; that number."""
        number = self._next_number
        self.operations.append(make(number))
        self._next_number += 1
        return number

    def tick(self) -> int:
        """The time of day; no two are equal."""
        self.clock_ns += CLOCK_STEP_NS
        return self.clock_ns

    def new_inode(
        self,
        mode: int,
        *,
        content: bytearray | None = None,
        entries: dict[str, int] | None = None,
        target: str | None = None,
        number: int | None = None,
    ) -> Inode:
        """Make an inode that has no name yet."""
        if number is None:
            number = self._next_inode
        self._next_inode = max(self._next_inode, number + 1)
        now = self.tick()
        inode = Inode(number, mode, content=content, entries=entries, target=target)
        inode.access_ns = inode.modification_ns = inode.change_ns = now
        self.inodes[number] = inode
        return inode

    @staticmethod
    def entries_of(directory: Inode) -> dict[str, int]:
        """The entries of a directory. Raises NotADirectoryError."""
        if directory.entries is None:
            raise failure(errno.ENOTDIR)
        return directory.entries

    def enter(self, directory: Inode, name: str, inode: Inode) -> None:
        """Give an inode a name."""
        self.entries_of(directory)[name] = inode.number
        inode.device = directory.device
        if inode.entries is None:
            inode.links += 1
        else:
            inode.links = 2 + sum(
                self.inodes[each].entries is not None for each in inode.entries.values()
            )
            inode.parent = directory.number
            directory.links += 1
        directory.modification_ns = directory.change_ns = inode.change_ns = self.tick()

    def leave(self, directory: Inode, name: str) -> Inode:
        """Take a name away. What has none left is the caller's to `forget`, or to enter anew."""
        inode = self.inodes[self.entries_of(directory).pop(name)]
        if inode.entries is None:
            inode.links -= 1
        else:
            inode.links = 0
            directory.links -= 1
        directory.modification_ns = directory.change_ns = inode.change_ns = self.tick()
        return inode

    def is_mount_point(self, inode: Inode) -> bool:
        """Whether a filesystem is mounted there: it cannot be removed or renamed."""
        return inode.entries is not None and inode.device != self.inodes[inode.parent].device

    def forget(self, inode: Inode) -> None:
        """Free an inode that nothing refers to."""
        if inode.links == 0 and inode.descriptors == 0:
            self.inodes.pop(inode.number, None)

    def walk(self, path: str, *, follow: bool) -> Found:
        """Resolve a path as path_resolution(7) does, for a process that may do everything.

        :param follow: whether a symbolic link as the last part is followed.
        :raises OSError: ENOENT, ENOTDIR, ELOOP, ENAMETOOLONG. A missing last name is none.
        """
        if "\0" in path:
            raise ValueError("embedded null byte")
        if not path:
            raise failure(errno.ENOENT, path)
        if len(os.fsencode(path)) >= PATH_BYTES_LIMIT:
            raise failure(errno.ENAMETOOLONG, path)
        current, name, slash, hops = self.root, "/", path.endswith("/"), 0
        pending = _parts(path)
        while pending:
            name = pending.pop()
            inode = self._step(current, name, path)
            if inode is None:
                if pending:
                    raise failure(errno.ENOENT, path)
                return Found(current, name, None, slash)
            if inode.target is not None and (pending or follow):
                hops += 1
                if hops > SYMLINK_HOPS_LIMIT:
                    raise failure(errno.ELOOP, path)
                slash = slash or (not pending and inode.target.endswith("/"))
                current = self.root if inode.target.startswith("/") else current
                pending.extend(_parts(inode.target))
                name = "/"
            elif pending or name in (".", ".."):
                current = inode
            else:
                return Found(current, name, inode, slash)
        return Found(current, name, current, slash)

    def _step(self, directory: Inode, name: str, path: str) -> Inode | None:
        """What a name in a directory is for."""
        if directory.entries is None:
            raise failure(errno.ENOTDIR, path)
        if name == ".":
            return directory
        if name == "..":
            return self.inodes[directory.parent]
        if len(os.fsencode(name)) > NAME_BYTES_LIMIT:
            raise failure(errno.ENAMETOOLONG, path)
        number = directory.entries.get(name)
        return None if number is None else self.inodes[number]

    def lookup(self, path: str, *, follow: bool = True) -> Inode:
        """The inode at a path. Raises OSError: as `walk`, and ENOENT."""
        found = self.walk(path, follow=follow or path.endswith("/"))
        if found.inode is None:
            raise failure(errno.ENOENT, path)
        if found.slash and found.inode.entries is None:
            raise failure(errno.ENOTDIR, path)
        return found.inode

    def tree(self) -> Tree:
        """What running programs see now: the state that an unmount would leave."""
        nodes: dict[str, Node] = {}
        inodes: dict[str, int] = {}
        stack = [("", self.root)]
        while stack:
            prefix, directory = stack.pop()
            for name, number in self.entries_of(directory).items():
                inode = self.inodes[number]
                nodes[prefix + name] = inode.node()
                inodes[prefix + name] = number
                if inode.entries is not None:
                    stack.append((prefix + name + "/", inode))
        return Tree(nodes, inodes, digest_of(nodes))

    def status(self, inode: Inode) -> os.stat_result:
        """What stat(2) says of an inode."""
        if inode.content is not None:
            kind, size = stat.S_IFREG, len(inode.content)
        elif inode.target is not None:
            kind, size = stat.S_IFLNK, len(os.fsencode(inode.target))
        else:
            kind, size = stat.S_IFDIR, 4096
        times = (inode.access_ns, inode.modification_ns, inode.change_ns)
        seconds = [time // 10**9 for time in times]
        fields = [kind | inode.mode, inode.number, inode.device, inode.links, 0, 0, size, *seconds]
        return os.stat_result(
            (*fields, *(time / 10**9 for time in times), *times, 4096, -(-size // 512), 0)
        )


def _parts(path: str) -> list[str]:
    """The names in a path, the last one first."""
    return [part for part in reversed(path.split("/")) if part]

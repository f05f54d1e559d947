"""A simulated machine on which another program syncs directories of the one under test.

libgit2, told to (GIT_OPT_ENABLE_FSYNC_GITDIR), syncs the directory of each file that it writes
(src/util/filebuf.c). A program that relies on nobody else's fsync(2) is in trouble then: on btrfs
the fsync of a directory makes removals from it durable, ahead of names that were given before in
other directories (seen on a real kernel: docs/necessity.md).
"""

from dataclasses import dataclass, field

from crashsim.model.operations import Scope, Sync
from crashsim.model.simulated import Simulated


@dataclass
class WithBystander(Simulated):
    """Each directory is synced by somebody else as soon as a name is removed from it.

    :ivar bystander: the numbers of those syncs in the log.
    """

    bystander: set[int] = field(init=False, default_factory=set)

    def unlink(self, path: str) -> None:
        """unlink(2)."""
        directory = self.walk(path, follow=False).directory
        super().unlink(path)
        self._sync_directory(directory.number, path)

    def remove_directory(self, path: str) -> None:
        """rmdir(2)."""
        directory = self.walk(path, follow=False).directory
        super().remove_directory(path)
        self._sync_directory(directory.number, path)

    def _sync_directory(self, inode: int, path: str) -> None:
        above = path.rstrip("/").rpartition("/")[0] or "/"
        self.bystander.add(
            self.record(lambda number: Sync(number, Scope.FILE, inode, above, is_directory=True))
        )

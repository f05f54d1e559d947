"""`fsync`: every file by itself, before it gets its name. What git does by default."""

from impl.durability.components import Component
from impl.durability.method import WHERE_GIT_NAMES_IT, FsyncMethod, StagedFile


class Fsync(FsyncMethod):
    """One fsync(2) per file of a wanted component, at the moment at which it is complete.

    Directories are not synced, as in git, and so what is whole need not be new: nothing syncs the
    last rename of a command, and a power cut after its end takes the index or the reference back
    (on all four: `durable` does not hold). Of a transaction's references each appears by itself
    (`atomic`). After `repack` and then `stash`, btrfs and f2fs can lose objects that HEAD leads to:
    see ON_ONE_JOURNAL (`intact`). Reflogs are never synced: on ext4 and f2fs a line can be there in
    its full length and hold zeros, and what git appends next is on the same line (`usable`).
    """

    name = "fsync"
    guarantee = WHERE_GIT_NAMES_IT

    def staged(self, file: StagedFile) -> bool:
        """Sync; loose objects appear at once, for nothing visible refers to them yet."""
        if self.wants(file.component):
            self.flush(file.descriptor)
        return file.component is Component.LOOSE_OBJECT

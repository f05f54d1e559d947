"""`fsync`: every file by itself, before it gets its name. What git does by default."""

from impl.durability.components import Component
from impl.durability.method import FsyncMethod, StagedFile, guaranteed


class Fsync(FsyncMethod):
    """One fsync(2) per file of a wanted component, at the moment at which it is complete.

    Directories are not synced, as in git: that names are durable too rests on filesystems whose
    fsync commits the journal that the names are in.
    """

    name = "fsync"
    guarantee = guaranteed("recoverable", "intact", "durable", "usable")

    def staged(self, file: StagedFile) -> bool:
        """Sync; loose objects appear at once, for nothing visible refers to them yet."""
        if self.wants(file.component):
            self.flush(file.descriptor)
        return file.component is Component.LOOSE_OBJECT

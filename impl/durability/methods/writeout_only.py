"""`writeout-only`: every file's pages are handed to the device, which is never told to keep them.

git's `core.fsyncMethod=writeout-only` (git-config(1)): sync_file_range(2) writes no metadata and
flushes no cache, and so a power cut may take all of it.
"""

from impl.durability.components import Component
from impl.durability.method import FsyncMethod, StagedFile, guaranteed


class WriteoutOnly(FsyncMethod):
    """One writeout per file of a wanted component, and an fsync(2) where that is not to be had.

    What is written out before its name is made is on the disk before that name where one journal
    has the names, and flushes the cache before it commits: ext4, xfs, and f2fs as long as nobody
    calls fsync(2), for then there are only its checkpoints. On btrfs the data of a file belong to
    no transaction before an fsync(2): a reference appears, its objects are empty. Nothing is
    durable when a command ends. Reflogs: as with `fsync`.
    """

    name = "writeout-only"
    guarantee = (
        guaranteed("recoverable", "intact", on=("ext4", "f2fs"))
        | guaranteed("recoverable", "intact", "usable", on=("xfs",))
        | guaranteed("recoverable", on=("btrfs",))
    )

    def staged(self, file: StagedFile) -> bool:
        """Write out; loose objects appear at once, for nothing visible refers to them yet."""
        if self.wants(file.component):
            self.write_out(file.descriptor)
        return file.component is Component.LOOSE_OBJECT

"""`paired-syncfs`: our own: one sync of the filesystem before anything appears, and one after.

Everything that a transaction changes (objects, packs, index, reflogs, references, symbolic ones
too) is written under temporary names, with no sync at all. Then

1. syncfs(2): all content is durable, nothing of it visible;
2. every file gets its name, in the transaction's order;
3. syncfs(2): all names are durable. Only now is anything removed, or promised.

A multi-pack-index does without the second: nobody is promised one, and what it makes superfluous is
in its own directory. There each of the four filesystems keeps names in their order (btrfs' fsync of
a directory logs what was added as well as what was removed).

It needs no property of any journal but that syncfs(2) makes durable all that was done before: a
crash in between leaves some of the names, each of a whole file. Two calls, whatever the number of
files. Their price is that they wait for other programs' writes on the same filesystem.
"""

from collections.abc import Sequence

from impl.durability.components import Phase, is_of_packs
from impl.durability.method import FsyncMethod, StagedFile, guaranteed


class PairedSyncfs(FsyncMethod):
    """Two syncfs(2) per transaction; a third where a removal itself is promised."""

    name = "paired-syncfs"
    guarantee = guaranteed("recoverable", "intact", "durable", "atomic", "usable")
    appends_in_place = False
    covers_state = True
    atomic_references = True

    _content_unsynced = False
    _names_unsynced = False
    _promises = False

    def staged(self, file: StagedFile) -> bool:
        """Nothing is synced, and nothing appears, yet."""
        if self.wants(file.component):
            self._content_unsynced = True
            self._promises = self._promises or not is_of_packs(file.component, file.final)
        return False

    def publishing(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """The first sync: everything staged is complete before the first phase."""
        if self._content_unsynced:
            self.sync_filesystem()
            self._content_unsynced = False
            self._names_unsynced = True

    def removing(self, paths: Sequence[str]) -> None:
        """The second sync: everything has its name."""
        if self._names_unsynced and self._promises:
            self.sync_filesystem()
            self._names_unsynced = False

    def removed(self, promised: Sequence[str]) -> None:
        """What is promised to be gone is gone for good."""
        if promised:
            self.sync_filesystem()

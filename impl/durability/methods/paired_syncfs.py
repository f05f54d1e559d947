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

A repository may be spread over several filesystems (`.git/objects` a mount of its own). Then each
that is changed is synced, and one more time in between: a name on one of them may be durable at any
moment, so those on others that it may lead to have to be durable before it is made. On one
filesystem that costs nothing: its syncs keep the order there.
"""

from collections.abc import Iterable, Sequence

from impl.durability.components import Component, Phase, is_of_packs
from impl.durability.filesystems import Filesystems
from impl.durability.method import FsyncMethod, StagedFile, Surroundings, guaranteed


class PairedSyncfs(FsyncMethod):
    """Two syncfs(2) per transaction; a third where a removal itself is promised."""

    name = "paired-syncfs"
    guarantee = guaranteed("recoverable", "intact", "durable", "atomic", "usable")
    appends_in_place = False
    covers_state = True
    atomic_references = True

    _promises = False

    def __init__(self, surroundings: Surroundings) -> None:
        """For one transaction."""
        super().__init__(surroundings)
        self._filesystems = Filesystems(surroundings.port, surroundings.git_directory)
        self._device_of: dict[str, int] = {}
        self._content_unsynced: set[int] = set()
        self._names_unsynced: set[int] = set()

    def staged(self, file: StagedFile) -> bool:
        """Nothing is synced, and nothing appears, yet."""
        if self.wants(file.component):
            device = self._filesystems.of_file(file.descriptor, file.temporary)
            self._device_of[file.final] = device
            self._content_unsynced.add(device)
            self._promises = self._promises or not is_of_packs(file.component, file.final)
        return False

    def restored(self, root: str, paths: Sequence[bytes]) -> None:
        """The working tree may be on a filesystem of its own: no sync was for that yet."""
        device = self._filesystems.of_path(root)
        if self.wants(Component.REFERENCE) and not self._filesystems.is_own(device):
            self._content_unsynced.add(device)

    def publishing(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """The first sync: everything staged is complete before the first phase.

        And what was published elsewhere is durable before names appear that may lead to it.
        """
        self._sync(self._content_unsynced)
        finals = (file.final for file in files)
        here = {self._device_of[final] for final in finals if final in self._device_of}
        self._sync([device for device in self._names_unsynced if here - {device}])
        self._names_unsynced |= here

    def removing(self, paths: Sequence[str]) -> None:
        """The second sync: everything has its name."""
        if self._promises:
            self._sync(self._names_unsynced)

    def removed(self, promised: Sequence[str]) -> None:
        """What is promised to be gone is gone for good."""
        self._sync({self._filesystems.of_path(path) for path in promised})

    def _sync(self, devices: Iterable[int]) -> None:
        for device in sorted(devices):
            self.sync_filesystem(self._filesystems.directory(device))
            self._content_unsynced.discard(device)
            self._names_unsynced.discard(device)

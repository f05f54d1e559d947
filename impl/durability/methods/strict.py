"""`strict`: POSIX at its word: a file's fsync makes that file durable, a directory's its names.

Nothing is assumed of a journal. Every file is synced before it gets its name, and the directory of
every name before anything that refers to it appears, or is removed, or is promised. On ext4, xfs,
btrfs and f2fs many of the directories' syncs are spared by the journal; a filesystem that keeps
POSIX and no more needs each of them (crashsim's `posix` model; `.rev` where it is longer than what
a disk writes at once).

Once is enough for a directory: the index refers to no reference and no reference to it, so that
their names are synced together, after the last of them. A multi-pack-index' name is not: nobody is
promised one, and no object is in a pack that `expire` removes.
"""

import os
import stat
from collections.abc import Iterable, Sequence

from impl.durability.components import Component, Phase, is_of_packs
from impl.durability.method import FAMILIES, FsyncMethod, StagedFile, Surroundings, guaranteed


class Strict(FsyncMethod):
    """fsync(2) of every file, and of every directory in which a name was made or removed.

    Two references of one transaction appear one after the other: a crash in between tears it, and
    so `atomic` is not claimed.
    """

    name = "strict"
    guarantee = guaranteed("recoverable", "intact", "durable", "usable", on=(*FAMILIES, "posix"))
    appends_in_place = False
    covers_state = True

    def __init__(self, surroundings: Surroundings) -> None:
        """For one transaction."""
        super().__init__(surroundings)
        self._named: list[str] = []
        self._linked: set[str] = set()

    def staged(self, file: StagedFile) -> bool:
        """Each file by itself."""
        if self.wants(file.component):
            self.flush(file.descriptor)
        return False

    def published(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """Objects' names are durable before anything refers to them, all before the promise."""
        self._named += [
            file.final
            for file in files
            if self.wants(file.component) and not is_of_packs(file.component, file.final)
        ]
        if phase is not Phase.INDEX:
            self._sync_directories(self._named)
            self._named.clear()

    def removed(self, promised: Sequence[str]) -> None:
        """A removal that is a promise is made durable as any other name."""
        if self.wants(Component.REFERENCE):
            self._sync_directories(promised)

    def restored(self, root: str, paths: Sequence[bytes]) -> None:
        """The working tree's files, too, and every directory above them: it may be new."""
        if not self.wants(Component.REFERENCE):
            return
        directories = {root}
        for path in (f"{root}/{os.fsdecode(each)}" for each in paths):
            if stat.S_ISREG(self._mode(path)):
                self.flush_path(path)
            while len(path := os.path.dirname(path)) > len(root):
                directories.add(path)
        for directory in sorted(directories):
            if stat.S_ISDIR(self._mode(directory)):
                self.flush_path(directory)

    def _mode(self, path: str) -> int:
        try:
            return self.port.lstat(path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return 0

    def _sync_directories(self, paths: Iterable[str]) -> None:
        """The parents of these paths, and those of the directories on the way that are new."""
        parents = {os.path.dirname(path) for path in paths}
        unsynced = set(self.surroundings.names.created) - self._linked
        for path in list(parents):
            while path in unsynced:
                self._linked.add(path)
                path = os.path.dirname(path)
                parents.add(path)
        for directory in sorted(parents):
            self.flush_path(directory)

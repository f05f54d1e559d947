"""`strict`: POSIX at its word: a file's fsync makes that file durable, a directory's its names.

Nothing is assumed of a journal. Every file is synced before it gets its name, and the directory of
every name before anything that refers to it appears, or is removed, or is promised. On ext4, xfs,
btrfs and f2fs many of the directories' syncs are spared by the journal; a filesystem that keeps
POSIX and no more needs each of them (crashsim's `posix` model; `.rev` where it is longer than what
a disk writes at once).
"""

import os
import stat
from collections.abc import Iterable, Sequence

from impl.durability.components import Component, Phase
from impl.durability.method import FAMILIES, FsyncMethod, StagedFile, Surroundings, guaranteed


class Strict(FsyncMethod):
    """fsync(2) of every file, and of every directory in which a name was made or removed.

    Two references of one transaction appear one after the other: a crash in between tears it, and
    so `atomic` is not claimed.
    """

    name = "strict"
    given_by = "POSIX"
    guarantee = guaranteed("recoverable", "intact", "durable", "usable", on=(*FAMILIES, "posix"))
    appends_in_place = False
    covers_state = True

    def __init__(self, surroundings: Surroundings) -> None:
        """For one transaction."""
        super().__init__(surroundings)
        self._directories_synced = 0

    def staged(self, file: StagedFile) -> bool:
        """Each file by itself."""
        if self.wants(file.component):
            self.flush(file.descriptor)
        return False

    def published(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """The names of one phase are durable before the next one's appear."""
        self._sync_directories(file.final for file in files if self.wants(file.component))

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
        """The parents of these paths, and of the directories made since the last time."""
        created = self.surroundings.names.created
        parents = {os.path.dirname(path) for path in paths}
        if parents:
            parents |= {os.path.dirname(path) for path in created[self._directories_synced :]}
            self._directories_synced = len(created)
        for directory in sorted(parents):
            self.flush_path(directory)

"""`bulk-rename`: the bulk-checkin proposal of 2021, `core.fsyncObjectFiles=2`.

Source: Neeraj Singh, "[PATCH 0/2] [RFC] Implement a bulk-checkin option for
core.fsyncObjectFiles", git mailing list, August 2021. Objects are written under temporary names
beside their final ones, and recorded; one flush, of the lock file that the command holds, and they
are all renamed. It needs no quarantine, and half the directory operations of `batch`.
"""

import time
from collections.abc import Sequence

from impl.durability.components import Component, Phase
from impl.durability.method import WHERE_GIT_NAMES_IT, FsyncMethod, StagedFile, Surroundings


class BulkRename(FsyncMethod):
    """Loose objects of a transaction: a writeout each, one flush. Everything else: as `fsync`.

    Not `intact` on btrfs, for `batch`'s reason: a reference survives without its trees.
    """

    name = "bulk-rename"
    guarantee = WHERE_GIT_NAMES_IT
    objects_first = True

    def __init__(self, surroundings: Surroundings) -> None:
        """For one transaction."""
        super().__init__(surroundings)
        self._recorded = 0

    def staged(self, file: StagedFile) -> bool:
        """Write out and record; its times are set while the descriptor is at hand."""
        if file.component is Component.LOOSE_OBJECT and file.bulk and self.wants(file.component):
            self.write_out(file.descriptor)
            now = time.time_ns()
            self.port.set_times(file.descriptor, now, now)
            self._recorded += 1
            return False
        if self.wants(file.component):
            self.flush(file.descriptor)
        return file.component is Component.LOOSE_OBJECT and not self._recorded

    def publishing(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """The one flush: of the lock file if the command holds one, else of an empty file."""
        if phase is not Phase.OBJECTS or not self._recorded:
            return
        lock = self.surroundings.open_lock(Component.INDEX)
        if lock is None:
            self.flush_dummy(f"{self.surroundings.git_directory}/objects")
        else:
            self.flush(lock)
        self._recorded = 0

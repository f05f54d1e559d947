"""`barrier`: git's original design: objects unsynced, one sync before anything refers to them.

Source: Linus Torvalds, quoted in "Re: [PATCH] enable core.fsyncObjectFiles by default", git mailing
list, January 2018: a new object file is not reachable, so it may be written without a sync; then
comes a sync, before the index or a reference is written.
"""

from collections.abc import Sequence

from impl.durability.components import Component, Phase
from impl.durability.method import FsyncMethod, StagedFile, guaranteed

_PACKED = Component.PACK | Component.PACK_METADATA | Component.COMMIT_GRAPH


class Barrier(FsyncMethod):
    """One syncfs(2) before the first index, reference or pack index appears.

    Loose objects appear at once. A pack does not: an .idx refers to all that is in it, and takes
    the place of the loose objects that `repack` removes.

    An object is visible before the sync: after a crash in between it can be empty, or zeros, and
    git takes it for stored when the same content is added again (`usable`, on all four). Nothing
    syncs the last rename (`durable`). Nothing is synced before the removals of `repack` either:
    where another program syncs a directory at that moment, btrfs keeps the removal without the
    pack's name (docs/necessity.md).
    """

    name = "barrier"
    guarantee = guaranteed("recoverable", "intact")

    _unsynced = False

    def staged(self, file: StagedFile) -> bool:
        """Nothing is synced yet."""
        self._unsynced = self._unsynced or self.wants(file.component)
        return file.component is Component.LOOSE_OBJECT

    def publishing(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """The sync also covers the index and the references, which are written, not renamed."""
        refers = phase is not Phase.OBJECTS or any(file.component in _PACKED for file in files)
        if refers and files and self._unsynced:
            self.sync_filesystem()
            self._unsynced = False

"""`pack-idx-flush`: a pack's .pack, .rev and .bitmap ride on the fsync of its .idx.

Source: the same mail as `index-flush`, its last paragraphs: nothing reads a .pack that has no .idx,
so one fsync, of the .idx and before it appears, might do for the four.
"""

from collections.abc import Sequence

from impl.durability.components import Component, Phase, is_of_packs
from impl.durability.method import ON_ONE_JOURNAL, FsyncMethod, StagedFile, Surroundings

_PACKED = Component.PACK | Component.PACK_METADATA


class PackIdxFlush(FsyncMethod):
    """Packs: a writeout of each file but the .idx, which is flushed. Everything else: as `fsync`.

    On btrfs the .idx survives, the .pack is empty, and `repack` has removed the loose objects:
    neither `intact` nor `usable`.
    """

    name = "pack-idx-flush"
    guarantee = ON_ONE_JOURNAL

    def __init__(self, surroundings: Surroundings) -> None:
        """For one transaction."""
        super().__init__(surroundings)
        self._written: list[StagedFile] = []

    def staged(self, file: StagedFile) -> bool:
        """Files of packs wait for their .idx."""
        if file.component in _PACKED and self.wants(file.component):
            if not (_is_idx(file) or is_of_packs(file.component, file.final)):
                self.write_out(file.descriptor)  # The others get a flush of their own.
            self._written.append(file)
            return False
        if self.wants(file.component):
            self.flush(file.descriptor)
        return file.component is Component.LOOSE_OBJECT

    def publishing(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """Flush each .idx; what came without one (a multi-pack-index) is flushed itself."""
        if phase is not Phase.OBJECTS:
            return
        indexed = {file.final.removesuffix(".idx") for file in self._written if _is_idx(file)}
        for file in self._written:
            stem = file.final.rpartition(".")[0]
            if _is_idx(file) or stem not in indexed:
                self.flush_path(file.temporary)
        self._written.clear()


def _is_idx(file: StagedFile) -> bool:
    return file.final.endswith(".idx")

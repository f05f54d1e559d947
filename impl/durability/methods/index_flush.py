"""`index-flush`: METHOD THREE of 2022: the index's own fsync flushes the objects that it names.

Source: Ævar Arnfjörð Bjarmason, "[RFC,v2,4/7] update-index: have the index fsync() flush the loose
objects", git mailing list, March 2022. Objects are written out; that the index is synced, even if
`index` is not in `core.fsync`, makes them durable. A command without an index has its last object
synced instead (the HASH_N_OBJECTS_FIRST and _LAST flags of that series).

The proposal renames objects into place before the flush, and leaves them unflushed for good when
the index turns out not to have changed: both are closed in `IndexFlush`, the default, and kept as
they were in `IndexFlushProposed`, so that it can be seen what they cost.
"""

from collections.abc import Sequence

from impl.durability.components import Component, Phase
from impl.durability.method import ON_ONE_JOURNAL, FsyncMethod, StagedFile, Surroundings


class IndexFlush(FsyncMethod):
    """Nothing is visible before the flush, which happens whether the index changed or not.

    Not `intact` on btrfs: the index's fsync makes the index durable, and the objects that it names
    are empty.
    """

    name = "index-flush"
    guarantee = ON_ONE_JOURNAL

    def __init__(self, surroundings: Surroundings) -> None:
        """For one transaction."""
        super().__init__(surroundings)
        self._last_object = ""
        self._index = ""

    def _is_plugged(self, file: StagedFile) -> bool:
        return file.bulk and file.component is Component.LOOSE_OBJECT and self.wants(file.component)

    def staged(self, file: StagedFile) -> bool:
        """Objects are written out; the index waits for its fsync until all of them are."""
        if self._is_plugged(file):
            self.write_out(file.descriptor)
            self._last_object = file.temporary
            return False
        if file.component is Component.INDEX:
            self._index = file.temporary
            return False
        if self.wants(file.component):
            self.flush(file.descriptor)
        return file.component is Component.LOOSE_OBJECT and not self._last_object

    def publishing(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """The flush: of the index that is about to appear; else of the last object."""
        if phase is Phase.OBJECTS and self._last_object:
            self.flush_path(self._index or self._last_object)
            self._index = self._last_object = ""
        elif phase is Phase.INDEX and self._index:
            if self.wants(Component.INDEX):
                self.flush_path(self._index)
            self._index = ""


class IndexFlushProposed(IndexFlush):
    """As it was proposed: objects are visible before the flush, which an unchanged index omits.

    On ext4 and xfs an object's name is in the journal after its content was written out: no
    crash shows a visible object that is not whole. On btrfs one does: it is there, empty, and git
    does not write it again.
    """

    name = "index-flush-proposed"
    guarantee = ON_ONE_JOURNAL

    def __init__(self, surroundings: Surroundings) -> None:
        """For one transaction."""
        super().__init__(surroundings)
        self._has_index = False

    def staged(self, file: StagedFile) -> bool:
        """Objects get their names at once."""
        if self.surroundings.open_lock(Component.INDEX) is not None:
            self._has_index = True
        super().staged(file)
        if self._is_plugged(file):
            self._last_object = file.final
        return file.component is Component.LOOSE_OBJECT

    def publishing(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """A command that works on the index relies on its fsync, written or not."""
        if phase is Phase.OBJECTS and self._has_index and not self._index:
            self._last_object = ""
        super().publishing(phase, files)

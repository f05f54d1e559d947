"""`batch`: git's own. Objects wait in a quarantine; one flush for all of them, then they move.

Source: `core.fsyncMethod=batch` in git-config(1), and the sequence of system calls that git 2.39
to 2.55 makes. It rests on filesystems on which one file's fsync(2) makes everything durable that
was written out, or named, before: those with one journal.
"""

from collections.abc import Sequence

from impl.durability.components import Component, Phase
from impl.durability.method import WHERE_GIT_NAMES_IT, FsyncMethod, StagedFile, Surroundings
from impl.durability.methods.quarantine import Quarantine


class Batch(FsyncMethod):
    """Loose objects of a transaction: a writeout each, one flush. Everything else: as `fsync`.

    On btrfs the flush makes its own file durable and no other: a commit's reference, fsynced,
    survives, and trees that it leads to are empty. Where `intact` holds, the rest is as `fsync`.
    """

    name = "batch"
    guarantee = WHERE_GIT_NAMES_IT
    objects_first = True

    def __init__(self, surroundings: Surroundings) -> None:
        """For one transaction."""
        super().__init__(surroundings)
        self._quarantine = Quarantine(surroundings)

    def _is_batched(self, component: Component, bulk: bool) -> bool:
        return bulk and component is Component.LOOSE_OBJECT and self.wants(component)

    def home(self, component: Component, final: str, bulk: bool) -> str:
        """Batched objects wait in the quarantine."""
        return self._quarantine.path_of(final) if self._is_batched(component, bulk) else final

    def staged(self, file: StagedFile) -> bool:
        """Nothing that the flush is to cover appears before it."""
        if self._is_batched(file.component, file.bulk):
            self.write_out(file.descriptor)
            return False
        if self.wants(file.component):
            self.flush(file.descriptor)
        # An object outside of the batch may refer to those in it: it waits for them.
        return file.component is Component.LOOSE_OBJECT and not self._quarantine.directory

    def publishing(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """The one flush: of an empty file in the quarantine."""
        if phase is Phase.OBJECTS and self._quarantine.directory:
            self.flush_dummy(self._quarantine.directory)

    def published(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """All objects have moved."""
        if phase is Phase.OBJECTS:
            self._quarantine.remove()

    def aborted(self) -> None:
        """The objects in it have been removed by the transaction."""
        self._quarantine.remove()

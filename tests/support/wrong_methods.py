"""Ten fsync methods that are wrong on purpose, and one that is right but unusual.

Each claims what it does not hold: `crashsim validate` must refute every one of the ten, in the
model and on a real kernel, and must not refute the last.
"""

from collections.abc import Sequence

from impl.durability.components import Component, Phase
from impl.durability.method import FsyncMethod, StagedFile, guaranteed
from impl.durability.methods.batch import Batch
from impl.durability.methods.paired_syncfs import PairedSyncfs
from impl.durability.methods.strict import Strict

EVERYTHING = guaranteed("recoverable", "intact", "durable", "atomic", "usable")
INTACT = guaranteed("intact")


class NoSync(FsyncMethod):
    """Trusts the kernel to write things in time."""

    name = "no-sync"
    guarantee = INTACT


class WriteOutIsEnough(FsyncMethod):
    """Takes sync_file_range(2) for a sync."""

    name = "write-out-is-enough"
    guarantee = guaranteed("intact", "durable")

    def staged(self, file: StagedFile) -> bool:
        """Pages only: no size, no place on the disk."""
        self.write_out(file.descriptor)
        return file.component is Component.LOOSE_OBJECT


class SyncAfterRename(FsyncMethod):
    """Syncs each file, but only once everybody can see it."""

    name = "sync-after-rename"
    guarantee = INTACT

    def staged(self, file: StagedFile) -> bool:
        """Too early for it."""
        return True

    def published(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """Too late for a crash in between."""
        for file in files:
            self.flush_path(file.final)


class ObjectsForgotten(FsyncMethod):
    """Syncs what names objects, and not the objects."""

    name = "objects-forgotten"
    guarantee = INTACT

    def staged(self, file: StagedFile) -> bool:
        """Indexes and references only."""
        if file.component in (Component.INDEX, Component.REFERENCE):
            self.flush(file.descriptor)
        return file.component is Component.LOOSE_OBJECT


class DirectoriesForgotten(Strict):
    """`strict` without its second half: names are promised that no sync has made durable."""

    name = "directories-forgotten"
    guarantee = guaranteed("intact", "durable")

    def published(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """Nothing."""

    def removed(self, promised: Sequence[str]) -> None:
        """Nothing."""


class FirstSyncForgotten(PairedSyncfs):
    """`paired-syncfs` with the second of its calls only."""

    name = "first-sync-forgotten"
    guarantee = INTACT

    def publishing(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """What appears now may be anything."""
        self._names_unsynced |= self._content_unsynced


class SecondSyncForgotten(PairedSyncfs):
    """`paired-syncfs` with the first of its calls only."""

    name = "second-sync-forgotten"
    guarantee = guaranteed("intact", "durable")

    def removing(self, paths: Sequence[str]) -> None:
        """What has appeared may vanish, and is promised."""

    def removed(self, promised: Sequence[str]) -> None:
        """So may what has been removed come back."""


class BatchEverywhere(Batch):
    """`batch`, taken to be safe on filesystems whose fsync carries no other file along."""

    name = "batch-everywhere"
    guarantee = INTACT


class OneFileForAll(FsyncMethod):
    """Syncs the last object of a transaction and takes the others to be carried along."""

    name = "one-file-for-all"
    guarantee = INTACT

    def staged(self, file: StagedFile) -> bool:
        """Everything but objects is synced."""
        if file.component is not Component.LOOSE_OBJECT:
            self.flush(file.descriptor)
        return False

    def publishing(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """One of them."""
        if phase is Phase.OBJECTS and files:
            self.flush_path(files[-1].temporary)


class AppendedInPlace(PairedSyncfs):
    """`paired-syncfs` with reflogs appended to where they are, as git does."""

    name = "appended-in-place"
    guarantee = EVERYTHING
    appends_in_place = True


WRONG = (
    NoSync,
    WriteOutIsEnough,
    SyncAfterRename,
    ObjectsForgotten,
    DirectoriesForgotten,
    FirstSyncForgotten,
    SecondSyncForgotten,
    BatchEverywhere,
    OneFileForAll,
    AppendedInPlace,
)


class StrictInAnotherOrder(Strict):
    """Right, but unusual: nothing is synced as it is written, all of it just before it appears."""

    name = "strict-in-another-order"
    guarantee = Strict.guarantee

    def staged(self, file: StagedFile) -> bool:
        """Later."""
        return False

    def publishing(self, phase: Phase, files: Sequence[StagedFile]) -> None:
        """Last file first."""
        for file in reversed(files):
            if self.wants(file.component):
                self.flush_path(file.temporary)


class SyncsOnceMore(PairedSyncfs):
    """Right, but wasteful: the second of its calls is made twice."""

    name = "syncs-once-more"

    def removing(self, paths: Sequence[str]) -> None:
        """Once more."""
        super().removing(paths)
        self.sync_filesystem()

"""The persistence models, by name."""

from crashsim.errors import UsageError
from crashsim.model.apfs import APFS
from crashsim.model.btrfs import BTRFS
from crashsim.model.ext4_ordered import EXT4_ORDERED
from crashsim.model.ext4_writeback import EXT4_WRITEBACK
from crashsim.model.f2fs import F2FS
from crashsim.model.ntfs import NTFS
from crashsim.model.persistence import Model
from crashsim.model.posix import POSIX
from crashsim.model.xfs import XFS

MODELS: dict[str, Model] = {
    model.name: model
    for model in (POSIX, EXT4_ORDERED, EXT4_WRITEBACK, XFS, BTRFS, F2FS, NTFS, APFS)
}


class UnknownModel(UsageError):
    """There is no persistence model of that name."""


def model_named(name: str) -> Model:
    """The persistence model of this name. Raises UnknownModel."""
    if name not in MODELS:
        known = ", ".join(MODELS)
        raise UnknownModel(f"no persistence model is called {name!r}; take one of: {known}")
    return MODELS[name]

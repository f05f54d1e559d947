"""What can be wrong with a pack, with what goes beside it, and with a child that writes one."""

from impl.errors import Corrupt, StoreError


class DamagedPack(Corrupt):
    """A pack whose bytes contradict themselves, its index, or the names of its objects."""

    def __init__(self, path: str, what: str) -> None:
        """Of the file at `path`; `what` says what is wrong with it."""
        super().__init__(
            f"{path}: {what}; restore this pack from another copy, or fetch its objects again"
        )
        self.path = path


class DamagedPackIndex(Corrupt):
    """An .idx that cannot be trusted. Everything in it can be computed from the pack."""

    def __init__(self, path: str, what: str) -> None:
        """Of the file at `path`; `what` says what is wrong with it."""
        super().__init__(f"{path}: {what}; rebuild it from its pack with index-pack")
        self.path = path


class DamagedReverseIndex(Corrupt):
    """A .rev that cannot be trusted. It is derived from the .idx and may be deleted."""

    def __init__(self, path: str, what: str) -> None:
        """Of the file at `path`; `what` says what is wrong with it."""
        super().__init__(f"{path}: {what}; delete it, or rebuild it with index-pack --rev-index")
        self.path = path


class DamagedBitmap(Corrupt):
    """A .bitmap that cannot be trusted. It is derived and may be deleted."""

    def __init__(self, path: str, what: str) -> None:
        """Of the file at `path`; `what` says what is wrong with it."""
        super().__init__(f"{path}: {what}; delete it, or write it again with repack -a -d -b")
        self.path = path


class DamagedMultiPackIndex(Corrupt):
    """A multi-pack-index that cannot be trusted. It is derived and may be deleted."""

    def __init__(self, path: str, what: str) -> None:
        """Of the file at `path`; `what` says what is wrong with it."""
        super().__init__(
            f"{path}: {what}; delete it, or write it again with multi-pack-index write"
        )
        self.path = path


class DamagedDelta(Corrupt):
    """A delta that does not apply to its base. The pack's reader says which object it was."""


class UnsupportedVersion(StoreError):
    """A format version, or an option bit, that this store does not know."""

    def __init__(self, path: str, what: str) -> None:
        """Of the file at `path`; `what` says what is wrong with it."""
        super().__init__(f"{path}: {what} is not supported; use a newer reader")


class ObjectTooLarge(StoreError):
    """An object beyond what this store holds in memory at once."""

    def __init__(self, path: str, offset: int, size_bytes: int, limit_bytes: int) -> None:
        """Of the object at an offset in the pack at `path`."""
        super().__init__(
            f"{path}: the object at offset {offset} has {size_bytes} bytes, "
            f"more than the {limit_bytes} that this store reads; use git for it"
        )

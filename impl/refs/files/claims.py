"""The locks of one transaction on references in files."""

from collections.abc import Callable
from typing import TypeVar

from impl.durability.components import Component
from impl.durability.port import write_all
from impl.durability.staged import Staged
from impl.objects.hashes import HashAlgorithm
from impl.refs.errors import NameConflict, ReferenceChanged, UnsupportedUpdate
from impl.refs.files.loose import encode_loose, read_loose
from impl.refs.files.packed import PackedRefs
from impl.refs.locks import PACKED_SECONDS, REFERENCE_SECONDS, patiently
from impl.refs.values import Symbolic, Value
from impl.transaction import RepoTransaction

_REFERENCE = Component.REFERENCE
Result = TypeVar("Result")


class Claims:
    """What one transaction has locked, and what it has staged under those locks so far.

    A reference that an earlier operation of the same transaction has written is read as that one
    left it.

    :ivar packed: the `packed-refs` that the transaction has staged, if any.
    :ivar directories: the claimed references that have a directory in their place.
    """

    def __init__(
        self,
        tx: RepoTransaction,
        git_directory: str,
        algorithm: HashAlgorithm,
        packed_value: Callable[[str], str | None],
    ) -> None:
        """`packed_value`: a reference's value in `packed-refs`, if it is there."""
        self.tx = tx
        self.packed: PackedRefs | None = None
        self._git_directory = git_directory
        self._algorithm = algorithm
        self._packed_value = packed_value
        self._locks: dict[str, Staged] = {}
        self._held: set[str] = set()
        self._written: dict[str, Value] = {}
        self._deleted: set[str] = set()
        self.directories: set[str] = set()

    def claim(self, name: str, may_write: bool) -> Value | None:
        """Lock a reference and read it; None if there is none. Raises LockHeld, NameConflict."""
        if name in self._deleted:
            raise UnsupportedUpdate(
                f"{name} was deleted in this transaction, and cannot be changed in it again"
            )
        if name in self._written:
            return self._written[name]
        if not may_write:
            self.hold(name)
        elif name not in self._locks and name not in self._held:
            self._locks[name] = self._take(name, lambda path: self.tx.lock(_REFERENCE, path))
        return self._read(name)

    def _read(self, name: str) -> Value | None:
        path = f"{self._git_directory}/{name}"
        loose = read_loose(self.tx.port, path, name, self._algorithm)
        if loose.is_directory:
            self.directories.add(name)
        return self._packed_value(name) if loose.value is None else loose.value

    def keep(self, name: str, value: Value | None) -> None:
        """Write nothing to a claimed reference, and keep others from it to the end.

        Its lock's descriptor is not kept open: there may be more locks than descriptors. The lock
        is given up and taken again for that; ReferenceChanged if another process was in between.
        """
        lock = self._locks.pop(name, None)
        if lock is None:
            return
        self.tx.discard(lock)
        self.hold(name)
        if self._read(name) != value:
            raise ReferenceChanged(f"cannot lock ref '{name}': it has changed just now: try again")

    def hold(self, name: str) -> None:
        """Lock a reference that is not to be changed itself. Raises LockHeld."""
        if name not in self._locks and name not in self._held:
            self._take(name, self.tx.hold)
            self._held.add(name)

    def _take(self, name: str, lock: Callable[[str], Result]) -> Result:
        path = f"{self._git_directory}/{name}"
        try:
            return patiently(lambda: lock(path), REFERENCE_SECONDS)
        except (NotADirectoryError, FileExistsError) as error:
            raise NameConflict(
                f"cannot lock ref '{name}': a reference has the name of one of its directories"
            ) from error

    def hold_packed(self, path: str) -> None:
        """Lock `packed-refs`. Raises LockHeld."""
        patiently(lambda: self.tx.hold(path), PACKED_SECONDS)

    def write(self, name: str, value: Value) -> None:
        """Stage a claimed reference's new value."""
        # git has no core.fsync component for symbolic references: they are files of state.
        component = Component.OTHER if isinstance(value, Symbolic) else Component.REFERENCE
        path = f"{self._git_directory}/{name}"
        # Without a lock of its own, an earlier operation of the transaction has written or held it.
        lock = self._locks.pop(name, None) or self.tx.lock(component, path)
        write_all(self.tx.port, lock.descriptor, encode_loose(value))
        self.tx.stage(lock if lock.component is component else lock._replace(component=component))
        self._written[name] = value

    def delete(self, name: str) -> None:
        """Remove a claimed reference's file at the end."""
        if name in self._written:
            raise UnsupportedUpdate(
                f"{name} was written in this transaction, and cannot be deleted in it"
            )
        self._deleted.add(name)
        self.tx.remove(f"{self._git_directory}/{name}", promised=True)

"""The ways in which references fail."""

from impl.errors import Corrupt, InvalidName, StoreError


class CorruptReference(Corrupt):
    """A loose reference is empty, or neither an object name nor a symbolic reference."""


class CorruptPackedRefs(Corrupt):
    """`packed-refs` does not have its format."""


class CorruptReflog(Corrupt):
    """A line of a reflog does not have its format."""


class CorruptReftable(Corrupt):
    """A table of the reftable stack does not have its format."""


class CorruptTableList(Corrupt):
    """`tables.list` does not name the tables of a stack, or names one that is not there."""


class InvalidReferenceName(InvalidName):
    """A name that no reference may have."""


class ReferenceMissing(StoreError):
    """A reference that must exist does not."""


class ReferenceChanged(StoreError):
    """A reference does not have the value that the update expects: somebody else was faster."""


class NameConflict(StoreError):
    """Two references cannot both exist: the name of one is a directory of the other's."""


class SymbolicLoop(StoreError):
    """Symbolic references lead to one another without end, or too deep."""


class UnsupportedUpdate(StoreError):
    """An update that contradicts itself, or another one of its transaction."""

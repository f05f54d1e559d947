"""What references are, and how they are asked to change."""

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple


class Symbolic(NamedTuple):
    """The value of a symbolic reference: the name of another one, which need not exist."""

    target: str


Value = str | Symbolic
"""Of a reference: an object name in hexadecimal, or another reference."""


class Absent(Enum):
    """Where a value is expected or wanted: that there be none."""

    ABSENT = "no value"


ABSENT = Absent.ABSENT

Expected = Value | Absent | None
"""What an update demands of the old value; None demands nothing."""


class Action(Enum):
    """What an update does when the old value is as expected."""

    WRITE = "write a value"
    DELETE = "delete the reference, with its reflog"
    VERIFY = "check the old value only"


class RefUpdate(NamedTuple):
    """One reference's part in a transaction.

    :ivar new: the value to write; None unless `action` is WRITE.
    :ivar old: what must be there: a Symbolic is compared with the reference itself, an object name
        with what it resolves to.
    :ivar message: for the reflogs; white space is collapsed.
    :ivar no_deref: change the reference itself, even if it is a symbolic one.
    :ivar create_reflog: log, even where neither the settings nor an existing log ask for it.
    :ivar skip_reflog: do not log: the caller edits the reflog itself.
    """

    name: str
    new: Value | None = None
    old: Expected = None
    message: str = ""
    action: Action = Action.WRITE
    no_deref: bool = False
    create_reflog: bool = False
    skip_reflog: bool = False


def write(name: str, new: Value, old: Expected = None, *, message: str = "") -> RefUpdate:
    """Write `new`, whether the reference exists or not, unless `old` demands one of the two."""
    return RefUpdate(name, new, old, message)


def create(name: str, new: Value, *, message: str = "") -> RefUpdate:
    """Write `new` to a reference that must not exist."""
    return RefUpdate(name, new, ABSENT, message)


def delete(name: str, old: Expected = None, *, no_deref: bool = False) -> RefUpdate:
    """Delete a reference, which must have the value `old` if that is given."""
    return RefUpdate(name, None, old, "", Action.DELETE, no_deref)


def verify(name: str, old: Expected, *, no_deref: bool = False) -> RefUpdate:
    """Change nothing; fail the transaction unless the reference is as expected."""
    return RefUpdate(name, None, old, "", Action.VERIFY, no_deref)


class ObjectFacts(NamedTuple):
    """What a reference store has to know of an object.

    :ivar type_name: `commit`, `tag`, `tree` or `blob`.
    :ivar peeled: of a tag, the name of the object that it leads to in the end.
    """

    type_name: str
    peeled: str | None = None


Describe = Callable[[str], ObjectFacts]
"""The facts of an object. Raises ObjectMissing, Corrupt."""

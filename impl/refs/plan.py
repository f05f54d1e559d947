"""From updates to changes: what each reference of a transaction has to become, and be logged as.

The same for both formats, and git's rules: an update of a symbolic reference goes through to what
it points to, and is logged for both; HEAD's reflog gets what happens to the branch it is on; old
values are compared under the references' locks; no reference is updated twice.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from impl.objects.hashes import HashAlgorithm
from impl.refs.errors import (
    NameConflict,
    ReferenceChanged,
    SymbolicLoop,
    UnsupportedUpdate,
)
from impl.refs.names import check_name, printable
from impl.refs.values import ABSENT, Action, Describe, RefUpdate, Symbolic, Value

SYMBOLIC_DEPTH_MAX = 5
"""Of symbolic references that point to symbolic references: git's SYMREF_MAXDEPTH."""


class LogLine(NamedTuple):
    """What a reflog is to say: object names, the null one for none."""

    old: str
    new: str
    message: str
    is_forced: bool


class Change(NamedTuple):
    """What becomes of one reference.

    :ivar before: its value now; None for none.
    :ivar after: its value then; None for none.
    :ivar update: what is logged for the update that it is part of, if anything is.
    :ivar is_through: it is a symbolic reference that the update went through to another one.
    """

    name: str
    before: Value | None
    after: Value | None
    update: LogLine | None
    is_through: bool = False

    @property
    def log(self) -> LogLine | None:
        """The entry for its reflog: an update to the value that it has already leaves none, except
        with the symbolic references that it went through."""
        return self.update if self.is_through or self.after != self.before else None

    @property
    def is_write(self) -> bool:
        """Whether there is a value to be written."""
        return self.after is not None and self.after != self.before

    @property
    def is_deletion(self) -> bool:
        """Whether the reference is to vanish."""
        return self.after is None and self.before is not None


class View(NamedTuple):
    """How the planner sees the references.

    :ivar claim: lock a reference against everybody else, and read it; None if there is none. Also
        told whether it may have to be written.
    :ivar peek: read it without a lock.
    :ivar first_below: a reference whose name continues this one with a slash, if there is one.
    """

    claim: Callable[[str, bool], Value | None]
    peek: Callable[[str], Value | None]
    first_below: Callable[[str], str | None]
    algorithm: HashAlgorithm


def plan(view: View, updates: Sequence[RefUpdate]) -> Iterator[Change]:
    """The changes that the updates amount to, each as soon as its reference is claimed and found
    as the update demands; none may be made visible before all are there.

    Raises InvalidReferenceName, LockHeld, ReferenceChanged, NameConflict, SymbolicLoop,
    UnsupportedUpdate, and what reading a damaged reference raises.
    """
    for update in updates:
        _check(update, view.algorithm)
    changes: dict[str, Change] = {}
    for update in updates:
        for change in _changes(view, update, changes):
            changes[change.name] = change
            yield change
    logged = _log_for_head(view, changes)
    if logged is not None:
        yield logged
    _check_names(view, changes)


def check_object(change: Change, describe: Describe) -> None:
    """Raise unless the object that is to be referred to is there, and a commit for a branch.

    Raises ObjectMissing, Corrupt, UnsupportedUpdate.
    """
    if not change.is_write or not isinstance(change.after, str):
        return
    type_name = describe(change.after).type_name
    if type_name != "commit" and (change.name == "HEAD" or change.name.startswith("refs/heads/")):
        raise UnsupportedUpdate(
            f"cannot update ref '{change.name}': {change.after} is a {type_name}, and a branch "
            "has to be a commit"
        )


def resolve_name(peek: Callable[[str], Value | None], name: str) -> tuple[str, str | None]:
    """Follow symbolic references: the last one's name, and its object name if it exists.

    Raises SymbolicLoop.
    """
    value = peek(name)
    for _ in range(SYMBOLIC_DEPTH_MAX):
        if not isinstance(value, Symbolic):
            return name, value
        name = value.target
        value = peek(name)
    raise SymbolicLoop(f"the symbolic reference {printable(name)} leads nowhere, or too far")


def _check(update: RefUpdate, algorithm: HashAlgorithm) -> None:
    check_name(update.name)
    if (update.new is not None) is not (update.action is Action.WRITE):
        raise UnsupportedUpdate(f"{update.action.name} of {update.name} with a wrong new value")
    for value in (update.new, update.old):
        if isinstance(value, Symbolic):
            check_name(value.target)
        elif isinstance(value, str) and not algorithm.is_name(value):
            raise UnsupportedUpdate(f"'{printable(value)}' is not the full name of an object")
    if update.new == algorithm.null:
        raise UnsupportedUpdate(f"{update.name} cannot be set to the null object name: delete it")


def _changes(view: View, update: RefUpdate, changes: dict[str, Change]) -> Iterator[Change]:
    name = update.name
    may_write = update.action is Action.WRITE
    value = _claim_once(view, name, changes, may_write)
    through: list[tuple[str, Symbolic]] = []
    while isinstance(value, Symbolic) and not update.no_deref:
        if len(through) == SYMBOLIC_DEPTH_MAX:
            raise SymbolicLoop(f"the symbolic reference {update.name} leads nowhere, or too far")
        through.append((name, value))
        name = value.target
        check_name(name)
        value = _claim_once(view, name, changes, may_write)
    _compare(view, update, value)
    after = update.new if update.action is Action.WRITE else value
    if update.action is Action.DELETE:
        after = None
    log = None if update.action is Action.VERIFY else _log_line(view, update, value, changes)
    yield Change(name, value, after, log)
    for symbolic_name, symbolic in through:
        yield Change(symbolic_name, symbolic, symbolic, log, is_through=True)


def _claim_once(view: View, name: str, changes: dict[str, Change], may_write: bool) -> Value | None:
    if name in changes:
        raise UnsupportedUpdate(
            f"multiple updates for ref '{name}' (including one via its referent) are not allowed"
        )
    return view.claim(name, may_write)


def _compare(view: View, update: RefUpdate, value: Value | None) -> None:
    """Raise ReferenceChanged unless the reference is what the update demands."""
    wanted = update.old
    lead = f"cannot lock ref '{update.name}': "
    if wanted is None:
        return
    if wanted is ABSENT:
        if value is not None:
            raise ReferenceChanged(f"{lead}reference already exists")
        return
    if isinstance(wanted, Symbolic):
        if value != wanted:
            found = "is a regular ref" if isinstance(value, str) else "has another target"
            found = "does not exist" if value is None else found
            raise ReferenceChanged(
                f"{lead}expected symref with target '{wanted.target}': it {found}"
            )
        return
    actual = value
    if isinstance(value, Symbolic):
        actual = resolve_name(view.peek, value.target)[1]
    if actual is None:
        raise ReferenceChanged(f"{lead}unable to resolve reference '{update.name}'")
    if actual != wanted:
        raise ReferenceChanged(f"{lead}is at {actual} but expected {wanted}")


def _log_line(
    view: View, update: RefUpdate, value: Value | None, changes: dict[str, Change]
) -> LogLine | None:
    if update.skip_reflog:
        return None
    old = _object_name(view, value, changes)
    new = _object_name(view, update.new, changes)
    if isinstance(update.new, Symbolic) and new is None:
        return None
    null = view.algorithm.null
    return LogLine(old or null, new or null, update.message, update.create_reflog)


def _object_name(view: View, value: Value | None, changes: dict[str, Change]) -> str | None:
    """What a value resolves to once the changes are made."""

    def after(name: str) -> Value | None:
        return changes[name].after if name in changes else view.peek(name)

    if not isinstance(value, Symbolic):
        return value
    try:
        return resolve_name(after, value.target)[1]
    except SymbolicLoop:
        return None  # It names no object; to say so would keep a loop from being broken.


def _log_for_head(view: View, changes: dict[str, Change]) -> Change | None:
    """Log for HEAD, too, what happens to the branch that it is on."""
    if "HEAD" in changes:
        return None
    head = view.peek("HEAD")
    if not isinstance(head, Symbolic):
        return None
    change = changes.get(head.target)
    if change is None or change.update is None or view.claim("HEAD", False) != head:
        return None
    return Change("HEAD", head, head, change.update, is_through=True)


def _check_names(view: View, changes: dict[str, Change]) -> None:
    """Raise NameConflict where a new reference's name is a directory of another's, or below it."""
    created = [one.name for one in changes.values() if one.is_write and one.before is None]
    new = set(created)
    free: set[str] = set()
    for name in created:
        parent = name.rpartition("/")[0]
        while parent and parent not in free:  # What is above one that is free is free.
            if parent in new or _is_reference(view, parent):
                raise _conflict(name, parent)
            free.add(parent)
            parent = parent.rpartition("/")[0]
        below = view.first_below(name)
        if below is not None:
            raise _conflict(name, below)


def _is_reference(view: View, name: str) -> bool:
    return name.count("/") > 0 and view.peek(name) is not None


def _conflict(name: str, other: str) -> NameConflict:
    return NameConflict(f"cannot lock ref '{name}': '{other}' exists; cannot create '{name}'")

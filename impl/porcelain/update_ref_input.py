"""`update-ref --stdin`: commands read from standard input, made in transactions.

Source: git-update-ref(1). Without `start`, everything to the end of the input is one transaction,
committed there. After `start`, only `commit` commits; the end of the input aborts.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager

from impl.context import Context
from impl.errors import InvalidInput
from impl.porcelain.ref_changes import committer, prepare_references
from impl.porcelain.update_ref_syntax import Fields, read_lines, read_nul_separated
from impl.refs.values import ABSENT, Action, Expected, RefUpdate, Symbolic, Value
from impl.revisions import find_object
from impl.transaction import RepoTransaction


class _Abort(Exception):
    """Leaves a prepared transaction without committing it."""


class Session:
    """The transactions of one standard input."""

    def __init__(self, context: Context, settings: RefUpdate) -> None:
        """`settings`: an update with the options that the command line gives to all."""
        self._context = context
        self._repository = context.repository
        self._settings = settings
        self._updates: list[RefUpdate] = []
        self._no_deref = settings.no_deref
        self._scope: AbstractContextManager[RepoTransaction] | None = None
        self._state = "open"

    def add(self, update: RefUpdate) -> None:
        """Add an update to the transaction."""
        if self._state == "prepared":
            raise InvalidInput("prepared transactions can only be closed")
        if self._state == "closed":
            raise InvalidInput("transaction is closed: begin another one with 'start'")
        self._updates.append(update)
        self._no_deref = self._settings.no_deref

    def update(
        self,
        name: str,
        action: Action,
        new: Value | None = None,
        old: Expected = None,
    ) -> RefUpdate:
        """An update of a reference, with the options that hold now."""
        return self._settings._replace(
            name=name, no_deref=self._no_deref, action=action, new=new, old=old
        )

    def option(self, name: str) -> None:
        """`option no-deref`: for the next update only."""
        if name != "no-deref":
            raise InvalidInput(f"option unknown: {name}")
        self._no_deref = True

    def start(self) -> None:
        """Begin an explicit transaction."""
        if self._state in ("started", "prepared"):
            raise InvalidInput("cannot restart ongoing transaction")
        if self._updates:
            raise InvalidInput("cannot start a transaction after updates")
        self._state = "started"
        self._tell("start")

    def prepare(self) -> None:
        """Lock, check and write everything, so that only the commit is left to do."""
        self._stage()
        self._state = "prepared"
        self._tell("prepare")

    def commit(self) -> None:
        """Make the updates visible."""
        if self._state == "closed":
            raise InvalidInput("transaction is closed: begin another one with 'start'")
        if self._scope is None:
            self._stage()
        assert self._scope is not None  # _stage opens it.
        scope, self._scope = self._scope, None
        scope.__exit__(None, None, None)
        self._repository.references.maintain(self._repository.transaction)
        self._close()
        self._tell("commit")

    def abort(self) -> None:
        """Forget the updates, and release the locks."""
        if self._state == "closed":
            raise InvalidInput("transaction is closed: begin another one with 'start'")
        self._roll_back()
        self._close()
        self._tell("abort")

    def finish(self) -> None:
        """The input is at its end: commit what was not begun by `start`; abort everything else."""
        if self._state == "open" and self._updates:
            self._stage()
            assert self._scope is not None  # _stage opens it.
            scope, self._scope = self._scope, None
            scope.__exit__(None, None, None)
            self._repository.references.maintain(self._repository.transaction)
        self._roll_back()

    def _close(self) -> None:
        self._updates.clear()
        self._state = "closed"

    def _stage(self) -> None:
        if self._state == "prepared":
            raise InvalidInput("prepared transactions can only be closed")
        prepare_references(self._repository, self._updates)
        scope = self._repository.transaction()
        transaction = scope.__enter__()
        self._scope = scope
        who = committer(self._repository)
        self._repository.references.apply(transaction, self._updates, who)

    def _roll_back(self) -> None:
        scope, self._scope = self._scope, None
        if scope is None:
            return
        abort = _Abort()
        try:
            scope.__exit__(_Abort, abort, None)
        except _Abort:
            return

    def __enter__(self) -> "Session":
        """The session itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Release what a prepared transaction holds, whatever happened."""
        self._roll_back()

    def _tell(self, command: str) -> None:
        self._context.print(f"{command}: ok")
        self._context.output.flush()

    # Values.

    def new(self, text: str | None, what: str) -> str | None:
        """A new value: an object's name; None for the null name, which deletes."""
        if text is None:
            raise InvalidInput(f"{what}: missing <new-oid>")
        if not text or text == self._repository.algorithm.null:
            return None
        return self._find(text)

    def old(self, text: str | None) -> Expected:
        """An old value; None if none is demanded."""
        if text is None:
            return None
        if not text or text == self._repository.algorithm.null:
            return ABSENT
        return self._find(text)

    def _find(self, text: str) -> str:
        is_name = self._repository.algorithm.is_name(text)
        return text if is_name else find_object(self._repository, text)


def update_from_input(context: Context, settings: RefUpdate, *, is_nul_separated: bool) -> int:
    """Run the commands on standard input. Raises InvalidInput, and what updating raises."""
    read = read_nul_separated if is_nul_separated else read_lines
    with Session(context, settings) as session:
        for command, fields in read(context.input):
            _COMMANDS[command](session, fields)
        session.finish()
    return 0


def _name(fields: Fields, command: str) -> str:
    if not fields or not fields[0]:
        raise InvalidInput(f"{command}: missing <ref>")
    return fields[0]


def _field(fields: Fields, number: int) -> str | None:
    return fields[number] if number < len(fields) else None


def _update(session: Session, fields: Fields) -> None:
    name = _name(fields, "update")
    new, old = session.new(_field(fields, 1), f"update {name}"), session.old(_field(fields, 2))
    action = Action.DELETE if new is None else Action.WRITE
    if new is None and old is ABSENT:
        action = Action.VERIFY
    session.add(session.update(name, action, new, old))


def _create(session: Session, fields: Fields) -> None:
    name = _name(fields, "create")
    new = session.new(_field(fields, 1), f"create {name}")
    if new is None:
        raise InvalidInput(f"create {name}: zero <new-oid>")
    session.add(session.update(name, Action.WRITE, new, ABSENT))


def _delete(session: Session, fields: Fields) -> None:
    name = _name(fields, "delete")
    old = session.old(_field(fields, 1))
    if old is ABSENT:
        raise InvalidInput(f"delete {name}: zero <old-oid>")
    session.add(session.update(name, Action.DELETE, old=old))


def _verify(session: Session, fields: Fields) -> None:
    name = _name(fields, "verify")
    old = session.old(_field(fields, 1))
    expected = ABSENT if old is None else old
    session.add(session.update(name, Action.VERIFY, old=expected))


def _symref_update(session: Session, fields: Fields) -> None:
    name = _name(fields, "symref-update")
    target, kind, value = (_field(fields, number) for number in (1, 2, 3))
    if not target:
        raise InvalidInput(f"symref-update {name}: missing <new-target>")
    old: Expected = None
    if kind == "oid":
        old = session.old(value or "")
    elif kind == "ref":
        old = Symbolic(value) if value else ABSENT
    elif kind:
        raise InvalidInput(f"symref-update {name}: invalid arg '{kind}' for old value")
    session.add(session.update(name, Action.WRITE, Symbolic(target), old))


def _symref_create(session: Session, fields: Fields) -> None:
    name, target = _name(fields, "symref-create"), _field(fields, 1)
    if not target:
        raise InvalidInput(f"symref-create {name}: missing <new-target>")
    session.add(session.update(name, Action.WRITE, Symbolic(target), ABSENT))


def _symref_delete(session: Session, fields: Fields) -> None:
    _add_symref(session, "symref-delete", fields, Action.DELETE)


def _symref_verify(session: Session, fields: Fields) -> None:
    _add_symref(session, "symref-verify", fields, Action.VERIFY)


def _add_symref(session: Session, command: str, fields: Fields, action: Action) -> None:
    name, target = _name(fields, command), _field(fields, 1)
    old: Expected = Symbolic(target) if target else None
    if action is Action.VERIFY and old is None:
        old = ABSENT
    update = session.update(name, action, old=old)
    if not update.no_deref:
        raise InvalidInput(f"{command}: cannot operate with deref mode")
    session.add(update)


def _option(session: Session, fields: Fields) -> None:
    session.option(_field(fields, 0) or "")


_COMMANDS: dict[str, Callable[[Session, Fields], None]] = {
    "update": _update,
    "create": _create,
    "delete": _delete,
    "verify": _verify,
    "symref-update": _symref_update,
    "symref-create": _symref_create,
    "symref-delete": _symref_delete,
    "symref-verify": _symref_verify,
    "option": _option,
    "start": lambda session, _: session.start(),
    "prepare": lambda session, _: session.prepare(),
    "commit": lambda session, _: session.commit(),
    "abort": lambda session, _: session.abort(),
}

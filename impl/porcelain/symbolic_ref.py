"""`symbolic-ref`: read, write and delete references to references. See git-symbolic-ref(1)."""

from impl.context import Context
from impl.errors import StoreError, UsageError
from impl.options import parse_options
from impl.porcelain.ref_changes import change_references
from impl.refs.errors import ReferenceMissing
from impl.refs.names import printable
from impl.refs.short import short_name
from impl.refs.store import resolve
from impl.refs.values import Action, RefUpdate, Symbolic
from impl.repository import Repository

_USAGE = (
    "usage: refgit symbolic-ref [-m REASON] NAME REF\n"
    "   or: refgit symbolic-ref [-q] [--short] [--no-recurse] NAME\n"
    "   or: refgit symbolic-ref --delete [-q] NAME"
)


class NotSymbolic(StoreError):
    """A reference that should be a symbolic one is not."""


def run(context: Context, arguments: list[str]) -> int:
    """See git-symbolic-ref(1). With -q, exits with 1 and says nothing for what is not symbolic."""
    options = parse_options(
        arguments, _USAGE, flags="quiet|q delete|d short recurse no-recurse", values="m"
    )
    repository, rest = context.repository, options.rest
    is_quiet = "quiet" in options.flags
    if "delete" in options.flags:
        if len(rest) != 1:
            raise UsageError(_USAGE)
        return _delete(repository, rest[0], is_quiet=is_quiet)
    if len(rest) == 1:
        target = _target(repository, rest[0])
        if target is None and is_quiet:
            return 1
        if target is None:
            raise NotSymbolic(f"ref {rest[0]} is not a symbolic ref")
        if "no-recurse" not in options.flags:
            target = resolve(repository.references, target).name
        context.print(
            short_name(repository.references, target) if "short" in options.flags else target
        )
        return 0
    if len(rest) != 2:
        raise UsageError(_USAGE)
    name, target = rest
    if name == "HEAD" and not target.startswith("refs/"):
        raise UsageError("fatal: Refusing to point HEAD outside of refs/")
    message = options.value("m") or ""
    change_references(
        repository, [RefUpdate(name, Symbolic(target), message=message, no_deref=True)]
    )
    return 0


def _target(repository: Repository, name: str) -> str | None:
    value = repository.references.read(name)
    if value is None:
        raise ReferenceMissing(f"No such ref: {printable(name)}")
    return value.target if isinstance(value, Symbolic) else None


def _delete(repository: Repository, name: str, *, is_quiet: bool) -> int:
    target = _target(repository, name)
    if target is None and is_quiet:
        return 1
    if target is None:
        raise NotSymbolic(f"Cannot delete {name}, not a symbolic ref")
    if name == "HEAD":
        raise UsageError("fatal: deleting 'HEAD' is not allowed")
    change_references(
        repository, [RefUpdate(name, None, Symbolic(target), "", Action.DELETE, no_deref=True)]
    )
    return 0

"""`update-ref`: change references, one or many, all or none. See git-update-ref(1)."""

import sys

from impl.context import Context
from impl.errors import StoreError, UsageError
from impl.options import parse_options
from impl.porcelain.ref_changes import change_references
from impl.porcelain.update_ref_input import update_from_input
from impl.refs.values import ABSENT, Action, Expected, RefUpdate
from impl.repository import Repository
from impl.revisions import find_object

_USAGE = (
    "usage: refgit update-ref [-m REASON] [--no-deref] -d REF [OLD]\n"
    "   or: refgit update-ref [-m REASON] [--no-deref] [--create-reflog] REF NEW [OLD]\n"
    "   or: refgit update-ref [-m REASON] [--no-deref] [--create-reflog] --stdin [-z]"
)


def run(context: Context, arguments: list[str]) -> int:
    """Change references; see git-update-ref(1). Exits with 1 if a deletion was refused."""
    options = parse_options(
        arguments, _USAGE, flags="delete|d no-deref deref create-reflog stdin z", values="m"
    )
    message = options.value("m") or ""
    if "m" in options.values and not message:
        raise UsageError("fatal: Refusing to perform update with empty message.")
    settings = RefUpdate(
        "",
        message=message,
        no_deref="no-deref" in options.flags,
        create_reflog="create-reflog" in options.flags,
    )
    repository, rest = context.repository, options.rest
    if "stdin" in options.flags:
        if rest or "delete" in options.flags:
            raise UsageError(_USAGE)
        return update_from_input(context, settings, is_nul_separated="z" in options.flags)
    if "z" in options.flags:
        raise UsageError(_USAGE)
    if "delete" in options.flags:
        if not 1 <= len(rest) <= 2:
            raise UsageError(_USAGE)
        old = _old(repository, rest[1]) if len(rest) == 2 else None
        return _delete(repository, settings._replace(name=rest[0], old=old, action=Action.DELETE))
    if not 2 <= len(rest) <= 3:
        raise UsageError(_USAGE)
    new = find_object(repository, rest[1])
    old = _old(repository, rest[2]) if len(rest) == 3 else None
    update = settings._replace(name=rest[0], new=new, old=old)
    if new == repository.algorithm.null:
        update = update._replace(new=None, action=Action.DELETE)
    change_references(repository, [update])
    return 0


def _old(repository: Repository, text: str) -> Expected:
    """An old value: an empty one, or the null name, say that there must be none."""
    if not text or text == repository.algorithm.null:
        return ABSENT
    return find_object(repository, text)


def _delete(repository: Repository, update: RefUpdate) -> int:
    if update.old is ABSENT:
        raise UsageError(f"fatal: {update.name}: deleting what must not exist makes no sense")
    try:
        change_references(repository, [update])
    except StoreError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0

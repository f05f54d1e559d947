"""`reflog (show | list | exists | expire | delete)`: what references were. See git-reflog(1)."""

from collections.abc import Sequence

from impl.context import Context
from impl.errors import InvalidName, UsageError
from impl.options import parse_options
from impl.porcelain.reflog_edit import Retention, delete_entries, expire
from impl.repository import Repository
from impl.revisions import reference_names

_USAGE = (
    "usage: refgit reflog [show] [-n COUNT] [REF]\n"
    "   or: refgit reflog list\n"
    "   or: refgit reflog exists REF\n"
    "   or: refgit reflog expire [--expire=TIME] [--expire-unreachable=TIME] [--rewrite] "
    "[--updateref] [--dry-run] [--all | REF...]\n"
    "   or: refgit reflog delete [--rewrite] [--updateref] REF@{N}..."
)
_ABBREVIATION = 7


def run(context: Context, arguments: list[str]) -> int:
    """Show or edit reflogs. `exists` exits with 1 where there is none."""
    commands = {
        "show": _show,
        "list": _list,
        "exists": _exists,
        "expire": _expire,
        "delete": _delete,
    }
    if arguments and arguments[0] in commands:
        return commands[arguments[0]](context, arguments[1:])
    return _show(context, arguments)


def full_name(repository: Repository, name: str) -> str:
    """The reference with a reflog that a short name stands for. Raises InvalidName."""
    for candidate in reference_names(name):
        if repository.references.has_reflog(candidate):
            return candidate
    raise InvalidName(f"no reflog for '{name}'")


def _show(context: Context, arguments: Sequence[str]) -> int:
    options = parse_options(arguments, _USAGE, values="max-count|n")
    if len(options.rest) > 1:
        raise UsageError(_USAGE)
    repository = context.repository
    given = options.rest[0] if options.rest else "HEAD"
    count = options.value("max-count")
    if count is not None and not count.isdigit():
        raise UsageError(f"fatal: '{count}': not an integer")
    name = full_name(repository, given)
    entries = list(reversed(repository.references.reflog(name)))
    for number, entry in enumerate(entries[: None if count is None else int(count)]):
        message = entry.message.decode("utf-8", "surrogateescape")
        context.print(f"{entry.new[:_ABBREVIATION]} {given}@{{{number}}}: {message}")
    return 0


def _list(context: Context, arguments: Sequence[str]) -> int:
    if arguments:
        raise UsageError(_USAGE)
    for name in context.repository.references.reflog_names():
        context.print(name)
    return 0


def _exists(context: Context, arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        raise UsageError(_USAGE)
    return 0 if context.repository.references.has_reflog(arguments[0]) else 1


def _expire(context: Context, arguments: Sequence[str]) -> int:
    options = parse_options(
        arguments,
        _USAGE,
        flags="all rewrite updateref dry-run|n verbose stale-fix",
        values="expire expire-unreachable",
    )
    repository = context.repository
    if not options.rest and "all" not in options.flags:
        return 0
    names = (
        repository.references.reflog_names()
        if "all" in options.flags
        else [full_name(repository, name) for name in options.rest]
    )
    retention = Retention.configured(
        repository, context.now(), options.value("expire"), options.value("expire-unreachable")
    )
    expire(
        repository,
        names,
        retention,
        rewrite="rewrite" in options.flags,
        update_reference="updateref" in options.flags,
        dry_run="dry-run" in options.flags,
    )
    return 0


def _delete(context: Context, arguments: Sequence[str]) -> int:
    options = parse_options(arguments, _USAGE, flags="rewrite updateref dry-run|n verbose")
    if not options.rest:
        raise UsageError("error: no reflog specified to delete")
    wanted: dict[str, set[int]] = {}
    for text in options.rest:
        name, brace, number = text.removesuffix("}").partition("@{")
        if not brace or not number.isdigit():
            raise UsageError(f"error: not a reflog: {text}")
        wanted.setdefault(full_name(context.repository, name or "HEAD"), set()).add(int(number))
    for name, numbers in wanted.items():
        if "dry-run" not in options.flags:
            delete_entries(
                context.repository,
                name,
                numbers,
                rewrite="rewrite" in options.flags,
                update_reference="updateref" in options.flags,
            )
    return 0

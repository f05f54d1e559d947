"""`show-ref`: references and what they name. See git-show-ref(1)."""

import sys
from collections.abc import Iterator

from impl.context import Context
from impl.errors import StoreError, UsageError
from impl.options import Options, parse_options
from impl.refs.errors import ReferenceMissing
from impl.refs.names import is_root
from impl.refs.store import resolve
from impl.repository import Repository
from impl.revisions import peel

_USAGE = (
    "usage: refgit show-ref [--head] [-d] [-s[N] | --hash[=N]] [--tags] [--branches] [PATTERN...]\n"
    "   or: refgit show-ref --verify [-q] [-d] [-s[N] | --hash[=N]] REF...\n"
    "   or: refgit show-ref --exists REF"
)


def run(context: Context, arguments: list[str]) -> int:
    """Print what matches; exits with 1 if nothing does, 2 if `--exists` finds no reference."""
    options = parse_options(
        ["--hash=40000" if argument in ("-s", "--hash") else argument for argument in arguments],
        _USAGE,
        flags="head dereference|d tags branches|heads verify exists quiet|q",
        values="hash|s abbrev",
    )
    if "exists" in options.flags:
        return _exists(context, options.rest)
    if "verify" in options.flags:
        return _verify(context, options)
    found = False
    for name, value in _matching(context, options):
        found = True
        _print(context, options, name, value)
    return 0 if found else 1


def _exists(context: Context, names: list[str]) -> int:
    if len(names) != 1:
        raise UsageError(_USAGE)
    if context.repository.references.read(names[0]) is None:
        sys.stderr.write(f"error: reference does not exist: {names[0]}\n")
        return 2
    return 0


def _verify(context: Context, options: Options) -> int:
    if not options.rest:
        raise UsageError("fatal: --verify requires a reference")
    for name in options.rest:
        value = None
        if name.startswith("refs/") or is_root(name):
            value = resolve(context.repository.references, name).object_name
        if value is None:
            if "quiet" in options.flags:
                return 1
            raise ReferenceMissing(f"'{name}' - not a valid ref")
        _print(context, options, name, value)
    return 0


def _matching(context: Context, options: Options) -> Iterator[tuple[str, str]]:
    references = context.repository.references
    if "head" in options.flags:
        head = resolve(references, "HEAD").object_name
        if head is not None:
            yield "HEAD", head
    kinds = [
        f"refs/{'heads' if kind == 'branches' else kind}/"
        for kind in ("branches", "tags")
        if kind in options.flags
    ]

    def on_broken(name: str, error: StoreError) -> None:
        context.warn(f"ignoring broken ref {name}: {error}")

    for name, _ in references.list("refs/", on_broken):
        if kinds and not name.startswith(tuple(kinds)):
            continue
        if options.rest and not any(_ends_with(name, pattern) for pattern in options.rest):
            continue
        value = resolve(references, name).object_name
        if value is None:
            context.warn(f"ignoring dangling symref {name}")
            continue
        yield name, value


def _ends_with(name: str, pattern: str) -> bool:
    """Whether the name's last components are the pattern."""
    return name == pattern or name.endswith(f"/{pattern}")


def _print(context: Context, options: Options, name: str, value: str) -> None:
    if "quiet" in options.flags:
        return
    _line(context, options, name, value)
    if "dereference" in options.flags:
        peeled = _peeled(context.repository, value)
        if peeled != value:
            _line(context, options, f"{name}^{{}}", peeled)


def _peeled(repository: Repository, value: str) -> str:
    return peel(repository, value, "")


def _line(context: Context, options: Options, name: str, value: str) -> None:
    length = options.value("hash") or options.value("abbrev")
    if length is not None:
        if not length.isdigit():
            raise UsageError(f"error: a number is expected, not '{length}'\n{_USAGE}")
        value = value[: max(int(length), 4)]
    context.print(value if options.value("hash") else f"{value} {name}")

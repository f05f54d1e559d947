"""`for-each-ref [--count=N] [--sort=KEY]… [--format=FORMAT] [--points-at=OBJECT] [PATTERN…]`."""

import os
from collections.abc import Sequence

from impl.context import Context
from impl.errors import StoreError, UsageError
from impl.options import Options, parse_options
from impl.porcelain.ref_format import Described, RefFormat, field
from impl.refs.names import matches_pattern
from impl.refs.store import resolve
from impl.refs.values import Symbolic
from impl.repository import Repository
from impl.revisions import find_object

_USAGE = (
    "usage: refgit for-each-ref [--count=N] [--sort=KEY]... [--format=FORMAT] "
    "[--points-at=OBJECT] [PATTERN...]"
)
_DEFAULT_FORMAT = "%(objectname) %(objecttype)\t%(refname)"


def run(context: Context, arguments: list[str]) -> int:
    """Print references, by name unless sorted otherwise; see git-for-each-ref(1)."""
    options = parse_options(arguments, _USAGE, values="count sort format points-at")
    form = RefFormat(options.value("format") or _DEFAULT_FORMAT)
    found = _sorted(_matching(context, options), options.values.get("sort", ()))
    for described in found[: _count(options)]:
        context.print(form.fill(described))
    return 0


def _count(options: Options) -> int | None:
    text = options.value("count")
    if text is None:
        return None
    if not text.isdigit():
        raise UsageError(f"error: invalid --count argument: `{text}'\n{_USAGE}")
    return int(text) or None


def _matching(context: Context, options: Options) -> list[Described]:
    repository = context.repository
    wanted = options.value("points-at")
    target = None if wanted is None else find_object(repository, wanted)
    return [
        described
        for described in described_references(context, repository, "refs/")
        if (not options.rest or any(matches_pattern(described.name, one) for one in options.rest))
        and (target is None or described.object_name == target)
    ]


def described_references(context: Context, repository: Repository, prefix: str) -> list[Described]:
    """References below `prefix` that lead to an object; others are warned about."""
    found = []

    def on_broken(name: str, error: StoreError) -> None:
        context.warn(f"ignoring broken ref {name}: {error}")

    for name, value in repository.references.list(prefix, on_broken):
        symbolic = value.target if isinstance(value, Symbolic) else None
        object_name = value if isinstance(value, str) else None
        if symbolic is not None:
            object_name = resolve(repository.references, name).object_name
        if object_name is None:
            context.warn(f"ignoring dangling symref {name}")
            continue
        found.append(Described(repository, name, object_name, symbolic))
    return found


def _sorted(found: list[Described], keys: Sequence[str]) -> list[Described]:
    """By the last key first, as git does; by name where the keys are equal."""
    for key in keys:
        value = field(key.removeprefix("-"))
        found.sort(
            key=lambda one, value=value: os.fsencode(value(one)),  # type: ignore[misc]
            reverse=key.startswith("-"),
        )
    return found

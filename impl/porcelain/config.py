"""`config [--get | --get-all | --unset] KEY`, `config KEY VALUE`, `config --list`."""

from impl.config import normal_key
from impl.config_edit import set_value
from impl.context import Context
from impl.durability.components import Component
from impl.durability.port import read_file
from impl.errors import UsageError
from impl.options import parse_options

_USAGE = "usage: refgit config (--list | [--get | --get-all | --unset] KEY | KEY VALUE)"


def run(context: Context, arguments: list[str]) -> int:
    """Print settings, or change one of the repository's own."""
    options = parse_options(arguments, _USAGE, flags="list|l get get-all unset local type-bool")
    kinds = options.flags & {"list", "get", "get-all", "unset"}
    count = len(options.rest)
    if len(kinds) > 1 or count > 2 or ("list" in kinds) != (count == 0) or (kinds and count == 2):
        raise UsageError(_USAGE)
    config = context.repository.config
    if "list" in kinds:
        for entry in config.entries:
            context.print(entry.key if entry.value is None else f"{entry.key}={entry.value}")
        return 0
    key = normal_key(options.rest[0])
    if count == 2:
        return _change(context, key, options.rest[1])
    if "unset" in kinds:
        return _change(context, key, None)
    values = config.all(key)
    for value in values if "get-all" in kinds else values[-1:]:
        context.print(value or "")
    return 0 if values else 1


def _change(context: Context, key: str, value: str | None) -> int:
    """Write the file anew beside the old one; 5, as git, if there is nothing to unset."""
    repository = context.repository
    path = f"{repository.git_directory}/config"
    with repository.transaction() as transaction:
        transaction.hold(path)
        before = read_file(context.port, path)
        after = set_value(before, key, value, path)
        if after is None:
            return 5
        transaction.write(Component.OTHER, path, after)
    return 0

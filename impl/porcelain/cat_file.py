"""`cat-file (-t | -s | -p | -e | TYPE) OBJECT`, and `cat-file --batch` and `--batch-check`."""

import os

from impl.context import Context
from impl.errors import InvalidName, ObjectMissing, UsageError
from impl.objects.model import TYPES, parse_tree
from impl.options import parse_options
from impl.paths import quoted
from impl.repository import Repository
from impl.revisions import find_object, find_of_type

_USAGE = "usage: refgit cat-file (-t | -s | -p | -e | TYPE) OBJECT | (--batch | --batch-check)"


def run(context: Context, arguments: list[str]) -> int:
    """Print an object, or what it is."""
    options = parse_options(
        arguments, _USAGE, flags="t s p e batch batch-check batch-all-objects buffer unordered"
    )
    repository = context.repository
    if options.flags & {"batch", "batch-check"}:
        return _batch(context, options.flags)
    if len(options.flags) == 1 and len(options.rest) == 1:
        return _show(context, next(iter(options.flags)), options.rest[0])
    if not options.flags and len(options.rest) == 2 and options.rest[0] in TYPES:
        name = find_of_type(repository, options.rest[1], options.rest[0])
        context.output.write(repository.objects.read_as(name, options.rest[0]))
        return 0
    raise UsageError(_USAGE)


def _show(context: Context, flag: str, revision: str) -> int:
    repository = context.repository
    name = find_object(repository, revision)
    if flag == "e":
        return 0 if repository.objects.contains(name) else 1
    type_name, content = repository.objects.read(name)
    if flag == "t":
        context.print(type_name)
    elif flag == "s":
        context.print(str(len(content)))
    else:
        context.output.write(pretty(repository, name, type_name, content))
    return 0


def pretty(repository: Repository, name: str, type_name: str, content: bytes) -> bytes:
    """An object as `cat-file -p` shows it: trees as lines, everything else as it is."""
    if type_name != "tree":
        return content
    lines = []
    for entry in parse_tree(content, name, repository.algorithm):
        kind = "tree" if entry.is_tree else "commit" if entry.mode == 0o160000 else "blob"
        lines.append(f"{entry.mode:06o} {kind} {entry.object_name}\t{quoted(entry.name)}\n")
    return "".join(lines).encode()


def _batch(context: Context, flags: frozenset[str]) -> int:
    """Answer line by line, in git's default format."""
    repository = context.repository
    if "batch-all-objects" in flags:
        requests = [name.encode() for name in sorted(set(repository.objects.names()))]
    else:
        requests = []
    source = requests if "batch-all-objects" in flags else context.input
    for line in source:
        request = os.fsdecode(line.rstrip(b"\n"))
        try:
            name = find_object(repository, request)
            type_name, content = repository.objects.read(name)
        except (ObjectMissing, InvalidName):
            context.print(f"{request} missing")
            continue
        context.print(f"{name} {type_name} {len(content)}")
        if "batch" in flags:
            context.output.write(content + b"\n")
        if "buffer" not in flags:
            context.output.flush()
    return 0

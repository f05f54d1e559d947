"""`hash-object [-t TYPE] [-w] [--stdin] [FILE…]`."""

from impl.context import Context
from impl.durability.port import read_file
from impl.errors import InvalidObject
from impl.objects.model import TYPES, check_tree, parse_commit, parse_tag, parse_tree
from impl.options import parse_options
from impl.repository import Repository

_USAGE = "usage: refgit hash-object [-t TYPE] [-w] [--stdin] [--literally] [FILE...]"


def run(context: Context, arguments: list[str]) -> int:
    """Print the names of objects made of files' contents; with -w, store them."""
    options = parse_options(arguments, _USAGE, flags="w stdin literally no-filters", values="t")
    repository = context.repository
    type_name = options.value("t") or "blob"
    if type_name not in TYPES:
        raise InvalidObject(f'invalid object type "{type_name}"')
    contents = [context.input.read()] if "stdin" in options.flags else []
    contents += [read_file(context.port, context.path(path)) for path in options.rest]
    for content in contents:
        if "literally" not in options.flags:
            _check(repository, type_name, content)
    if "w" in options.flags:
        with repository.transaction():
            names = [repository.objects.write(type_name, data, bulk=False) for data in contents]
    else:
        names = [repository.algorithm.object_name(type_name, data) for data in contents]
    for name in names:
        context.print(name)
    return 0


def _check(repository: Repository, type_name: str, content: bytes) -> None:
    """Raise Corrupt for what would not be a well-formed object."""
    name, algorithm = "given", repository.algorithm
    if type_name == "tree":
        check_tree(parse_tree(content, name, algorithm), name)
    elif type_name == "commit":
        parse_commit(content, name, algorithm)
    elif type_name == "tag":
        parse_tag(content, name, algorithm)

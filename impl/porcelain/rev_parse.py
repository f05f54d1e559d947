"""`rev-parse [--verify] [-q] [--short] REVISION…`, and what scripts ask of a repository."""

from impl.context import Context
from impl.errors import InvalidName, UsageError
from impl.options import parse_options
from impl.refs.store import resolve
from impl.revisions import find_object, reference_names

_USAGE = (
    "usage: refgit rev-parse [--verify] [-q] [--short] [--symbolic-full-name] REVISION... | "
    "--git-dir | --show-toplevel | --show-object-format | --show-ref-format | --is-bare-repository"
)


def run(context: Context, arguments: list[str]) -> int:
    """Print the object names that revisions stand for."""
    options = parse_options(
        arguments,
        _USAGE,
        flags="verify quiet|q short symbolic-full-name git-dir absolute-git-dir show-toplevel "
        "show-object-format show-ref-format is-bare-repository",
    )
    repository = context.repository
    if "verify" in options.flags and len(options.rest) != 1:
        raise UsageError("fatal: Needed a single revision")
    answers = {
        "git-dir": repository.git_directory,
        "absolute-git-dir": repository.git_directory,
        "show-toplevel": repository.work_tree or "",
        "show-object-format": repository.algorithm.name,
        "show-ref-format": repository.reference_format,
        "is-bare-repository": str(repository.work_tree is None).lower(),
    }
    for question, answer in answers.items():
        if question in options.flags:
            context.print(answer)
    for revision in options.rest:
        try:
            name = find_object(repository, revision)
        except InvalidName:
            if "quiet" in options.flags:
                return 1
            raise
        if "symbolic-full-name" in options.flags:
            context.print(_full_name(context, revision))
        else:
            context.print(name[:7] if "short" in options.flags else name)
    return 0


def _full_name(context: Context, revision: str) -> str:
    references = context.repository.references
    for candidate in reference_names(revision):
        found = resolve(references, candidate)
        if found.object_name is not None:
            return found.name
    return ""

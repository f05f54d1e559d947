"""`pack-refs [--all] [--no-prune] [--auto]`: references into their compact form."""

from impl.context import Context
from impl.errors import UsageError
from impl.options import parse_options
from impl.repository import Repository

_USAGE = "usage: refgit pack-refs [--all] [--no-prune] [--auto]"


def run(context: Context, arguments: list[str]) -> int:
    """See git-pack-refs(1). Reftables are merged into one; with --auto, only if need be."""
    options = parse_options(arguments, _USAGE, flags="all prune no-prune auto")
    if options.rest:
        raise UsageError(_USAGE)
    if "auto" in options.flags and context.repository.reference_format == "reftable":
        context.repository.references.maintain(context.repository.transaction)
        return 0
    pack(
        context.repository, everything="all" in options.flags, prune="no-prune" not in options.flags
    )
    return 0


def pack(repository: Repository, *, everything: bool, prune: bool = True) -> None:
    """Pack tags, or everything. Raises LockHeld, Corrupt."""
    with repository.transaction() as transaction:
        repository.references.pack(transaction, everything=everything, prune=prune)

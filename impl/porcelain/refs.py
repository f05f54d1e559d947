"""`refs verify`: check that every reference and reflog can be read. See git-refs(1)."""

import sys

from impl.context import Context
from impl.errors import UsageError

_USAGE = "usage: refgit refs verify"


def run(context: Context, arguments: list[str]) -> int:
    """Print what is wrong, a line each; exits with 1 if anything is."""
    if arguments != ["verify"]:
        raise UsageError(_USAGE)
    code = 0
    for error in context.repository.references.verify():
        sys.stderr.write(f"error: {error}\n")
        code = 1
    return code

"""The short names of references: `main` for `refs/heads/main`, where that is not ambiguous."""

from impl.refs.names import is_root, is_well_formed
from impl.refs.store import ReferenceStore

RULES = ("", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/")
"""Where git looks for a short name, in this order (gitrevisions(7))."""


def short_name(references: ReferenceStore, name: str) -> str:
    """The shortest name that still leads to the reference first."""
    for rule in reversed(RULES[1:]):
        if not name.startswith(rule):
            continue
        short = name[len(rule) :]
        earlier = RULES[: RULES.index(rule)]
        if not any(_exists(references, prefix + short) for prefix in earlier):
            return short
    return name


def _exists(references: ReferenceStore, name: str) -> bool:
    is_name = is_root(name) or (name.startswith("refs/") and is_well_formed(name))
    return is_name and references.read(name) is not None

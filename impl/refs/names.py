"""Which names references may have: the rules of git-check-ref-format(1)."""

import re

from impl.refs.errors import InvalidReferenceName

_FORBIDDEN = re.compile(
    r"""
      [\x00-\x20\x7f~^:?*\[\\]    # control characters, space, and git's revision syntax
    | \.\.                        # ranges
    | @\{                         # reflog syntax
    | (?:^|/)(?:\.|/|$)           # components that are hidden files, or empty
    | \.$
    | \.lock(?:/|$)               # lock files
    """,
    re.VERBOSE,
)
_ROOT = re.compile(r"(?:[A-Z_-]*_)?HEAD\Z")
_OTHER_ROOTS = frozenset(
    {
        "AUTO_MERGE",
        "BISECT_EXPECTED_REV",
        "NOTES_MERGE_PARTIAL",
        "NOTES_MERGE_REF",
        "MERGE_AUTOSTASH",
    }
)
"""The names of references beside `refs/` that do not end in HEAD; COMMIT_EDITMSG is none."""
_NAME_BYTES_MAX = 4000
"""Less than PATH_MAX leaves room for the repository's own path, and than a reftable block."""


def is_well_formed(name: str, *, allow_one_level: bool = False) -> bool:
    """Whether `git check-ref-format [--allow-onelevel]` accepts the name."""
    if not name or name == "@" or _FORBIDDEN.search(name):
        return False
    return allow_one_level or "/" in name


def is_root(name: str) -> bool:
    """Whether the name is of a reference beside `refs/`: HEAD, ORIG_HEAD, …"""
    return _ROOT.match(name) is not None or name in _OTHER_ROOTS


def check_name(name: str) -> None:
    """Raise InvalidReferenceName unless a reference of this store may have the name.

    Narrower than git-check-ref-format(1): a name is below `refs/`, or in capitals like HEAD.
    `config`, `objects/…` and whatever else lies in a repository can so never be overwritten.
    """
    if is_root(name):
        return
    if not (name.startswith("refs/") and is_well_formed(name)):
        raise InvalidReferenceName(
            f"'{printable(name)}' is not a valid reference name: use refs/heads/…, refs/tags/… or "
            "another name below refs/ that git check-ref-format accepts"
        )
    if len(name) > _NAME_BYTES_MAX:
        raise InvalidReferenceName(
            f"the reference name '{printable(name[:60])}…' has {len(name)} characters; "
            f"{_NAME_BYTES_MAX} are allowed"
        )


def printable(name: str) -> str:
    """The name for a message: one line, no control characters, no surrogates."""
    return name.encode("utf-8", "backslashreplace").decode().encode("unicode_escape").decode()


def full_branch_name(name: str) -> str:
    """`main` to `refs/heads/main`. Raises InvalidReferenceName for what is no branch's name."""
    full = f"refs/heads/{name}"
    if name.startswith("-") or name == "HEAD" or not is_well_formed(full):
        raise InvalidReferenceName(f"'{printable(name)}' is not a valid branch name")
    return full


def matches_pattern(name: str, pattern: str) -> bool:
    """Whether a pattern of git-for-each-ref(1) selects the name: it is the name or a directory of
    it, or has wildcards, of which `*` and `?` match no slash and `**` does.
    """
    if not any(character in pattern for character in "*?["):
        return name == pattern or name.startswith(pattern.rstrip("/") + "/")
    return re.fullmatch(_wildcards(pattern), name) is not None


def _wildcards(pattern: str) -> str:
    parts = []
    for match in re.finditer(_WILDCARD, pattern, re.DOTALL):
        text = match[0]
        if text in _WILDCARDS:
            parts.append(_WILDCARDS[text])
        elif len(text) > 1:
            negated = text[1] in "!^"
            members = text[2 if negated else 1 : -1].replace("\\", r"\\").replace("[", r"\[")
            parts.append(f"(?!/)[{'^' if negated else ''}{members}]")
        else:
            parts.append(re.escape(text))
    return "".join(parts)


_WILDCARD = r"\*\*/?|\*|\?|\[[!^]?\]?[^\]/]*\]|."
_WILDCARDS = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}

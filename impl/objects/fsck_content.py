"""What is wrong with the content of an object, in git's words (git-fsck(1), "FSCK MESSAGES")."""

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

from impl.objects.hashes import HashAlgorithm
from impl.objects.pack_format import TYPE_NUMBERS
from impl.paths import is_dot_git

_IDENTITY = re.compile(rb"[^<>\n]* <[^<>\n]*> (?:0|[1-9]\d*) [+-]\d{4}")
_TREE_MODE = b"40000"
_MODES = frozenset({b"100644", b"100755", b"100664", b"120000", b"160000", _TREE_MODE})


class Severity(Enum):
    """How bad it is; with `--strict`, warnings count as errors."""

    ERROR = "error"
    WARNING = "warning"


class Problem(NamedTuple):
    """One fault of an object. :ivar identifier: git's name for its kind."""

    severity: Severity
    identifier: str
    text: str


def content_problems(type_name: str, content: bytes, algorithm: HashAlgorithm) -> Iterator[Problem]:
    """Everything that is wrong with an object whose name is right. Blobs can have no fault."""
    if type_name == "tree":
        yield from _tree_problems(content, algorithm)
    elif type_name == "commit":
        yield from _commit_problems(content, algorithm)
    elif type_name == "tag":
        yield from _tag_problems(content, algorithm)


def _error(identifier: str, text: str) -> Problem:
    return Problem(Severity.ERROR, identifier, text)


def _warning(identifier: str, text: str) -> Problem:
    return Problem(Severity.WARNING, identifier, text)


class _Entry(NamedTuple):
    mode: bytes
    path: bytes
    name: bytes

    @property
    def sort_key(self) -> bytes:
        """Directories are ordered as if they ended with a slash."""
        return self.path + b"/" if self.mode.lstrip(b"0") == _TREE_MODE else self.path


def _tree_entries(content: bytes, algorithm: HashAlgorithm) -> list[_Entry] | None:
    """None if it cannot be taken apart."""
    entries = []
    position = 0
    while position < len(content):
        space = content.find(b" ", position)
        end = content.find(b"\0", space)
        after = end + 1 + algorithm.size_bytes
        if space < 0 or end < 0 or after > len(content):
            return None
        mode = content[position:space]
        if not mode or mode.strip(b"01234567"):
            return None
        entries.append(_Entry(mode, content[space + 1 : end], content[end + 1 : after]))
        position = after
    return entries


def _tree_problems(content: bytes, algorithm: HashAlgorithm) -> Iterator[Problem]:
    entries = _tree_entries(content, algorithm)
    if entries is None:
        yield _error("badTree", "cannot be parsed as a tree")
        return
    null = bytes(algorithm.size_bytes)
    if any(entry.name == null for entry in entries):
        yield _warning("nullSha1", "contains entries pointing to null sha1")
    paths = [entry.path for entry in entries]
    for is_bad, identifier, text in (
        (b"".__eq__, "emptyName", "contains empty pathname"),
        (lambda path: b"/" in path, "fullPathname", "contains full pathnames"),
        (b".".__eq__, "hasDot", "contains '.'"),
        (b"..".__eq__, "hasDotdot", "contains '..'"),
        (is_dot_git, "hasDotgit", "contains '.git'"),
    ):
        if any(is_bad(path) for path in paths):
            yield _warning(identifier, text)
    if any(entry.mode.startswith(b"0") for entry in entries):
        yield _warning("zeroPaddedFilemode", "contains zero-padded file modes")
    if any(entry.mode.lstrip(b"0") not in _MODES for entry in entries):
        yield _warning("badFilemode", "contains bad file modes")
    if len(set(paths)) != len(paths):
        yield _error("duplicateEntries", "contains duplicate file entries")
    elif any(first.sort_key >= second.sort_key for first, second in pairwise(entries)):
        yield _error("treeNotSorted", "not properly sorted")


def _commit_problems(content: bytes, algorithm: HashAlgorithm) -> Iterator[Problem]:
    lines = _header_lines(content)
    position = 0
    yield from _link_problems(lines, position, b"tree", "Tree", algorithm)
    position += _starts(lines, position, b"tree ")
    while _starts(lines, position, b"parent "):
        yield from _link_problems(lines, position, b"parent", "Parent", algorithm)
        position += 1
    for word in (b"author", b"committer"):
        yield from _identity_problems(lines, position, word)
        position += _starts(lines, position, word + b" ")
    if b"\0" in content:
        yield _warning("nulInCommit", "NUL byte in the commit object body")


def _tag_problems(content: bytes, algorithm: HashAlgorithm) -> Iterator[Problem]:
    lines = _header_lines(content)
    yield from _link_problems(lines, 0, b"object", "Object", algorithm)
    if not _starts(lines, 1, b"type "):
        yield _error("missingTypeEntry", "invalid format - expected 'type' line")
    elif lines[1][5:].decode("ascii", "replace") not in TYPE_NUMBERS:
        yield _error("badType", "invalid 'type' value")
    if not _starts(lines, 2, b"tag "):
        yield _error("missingTagEntry", "invalid format - expected 'tag' line")
    if _starts(lines, 3, b"tagger "):
        yield from _identity_problems(lines, 3, b"tagger")


def _header_lines(content: bytes) -> list[bytes]:
    return content.partition(b"\n\n")[0].split(b"\n")


def _starts(lines: Sequence[bytes], position: int, word: bytes) -> bool:
    return position < len(lines) and lines[position].startswith(word)


def _link_problems(
    lines: Sequence[bytes], position: int, word: bytes, title: str, algorithm: HashAlgorithm
) -> Iterator[Problem]:
    if not _starts(lines, position, word + b" "):
        yield _error(f"missing{title}", f"invalid format - expected '{word.decode()}' line")
        return
    name = lines[position][len(word) + 1 :].decode("ascii", "replace")
    if not algorithm.is_name(name):
        yield _error(f"bad{title}Sha1", f"invalid '{word.decode()}' line format - bad sha1")


def _identity_problems(lines: Sequence[bytes], position: int, word: bytes) -> Iterator[Problem]:
    if not _starts(lines, position, word + b" "):
        title = word.decode().capitalize()
        yield _error(f"missing{title}", f"invalid format - expected '{word.decode()}' line")
    elif not _IDENTITY.fullmatch(lines[position][len(word) + 1 :]):
        yield _error("badIdentity", f"invalid {word.decode()} line - name, email or date")

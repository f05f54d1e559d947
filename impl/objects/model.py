"""Trees, commits and tags: their bytes, and what is in them. A blob is its bytes.

Source: git's gitformat pages and what `git fsck --strict` accepts. Parsing keeps unknown headers,
so that an object serialises to exactly what was parsed.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from impl.errors import CorruptObject, InvalidObject
from impl.objects.hashes import HashAlgorithm

TYPES = ("commit", "tree", "blob", "tag")

MODE_TREE = 0o040000
MODE_FILE = 0o100644
MODE_EXECUTABLE = 0o100755
MODE_LINK = 0o120000
MODE_COMMIT = 0o160000
"""The modes that a tree's entries have; MODE_COMMIT is a submodule's."""

_MODES = frozenset({MODE_TREE, MODE_FILE, MODE_EXECUTABLE, MODE_LINK, MODE_COMMIT, 0o100664})

_IDENTITY = re.compile(rb"[^<>\n\0]* ?<[^<>\n\0]*> \d+ [+-]\d{4}")


class TreeEntry(NamedTuple):
    """One name in a tree. :ivar name: the raw bytes. :ivar object_name: hexadecimal."""

    mode: int
    name: bytes
    object_name: str

    @property
    def is_tree(self) -> bool:
        """Whether it is a directory."""
        return self.mode == MODE_TREE


def tree_order(entry: TreeEntry) -> bytes:
    """git's order: by name, as if a directory's name ended with a slash."""
    return entry.name + b"/" if entry.is_tree else entry.name


def format_tree(entries: Iterable[TreeEntry]) -> bytes:
    """The content of a tree object, sorted. Raises InvalidObject for entries that none can have."""
    ordered = sorted(entries, key=tree_order)
    seen: set[bytes] = set()
    for entry in ordered:
        if not entry.name or b"/" in entry.name or b"\0" in entry.name or entry.name in seen:
            raise InvalidObject(f"a tree cannot have an entry named {entry.name!r} (again)")
        seen.add(entry.name)
    return b"".join(
        b"%o %s\0%s" % (entry.mode, entry.name, bytes.fromhex(entry.object_name))
        for entry in ordered
    )


def parse_tree(content: bytes, name: str, algorithm: HashAlgorithm) -> list[TreeEntry]:
    """The entries of a tree, in its order. Raises CorruptObject, saying what is wrong with it."""
    entries: list[TreeEntry] = []
    size = algorithm.size_bytes
    position = 0
    while position < len(content):
        space = content.find(b" ", position, position + 8)
        end = content.find(b"\0", space + 1) if space > 0 else -1
        if end < 0 or end + 1 + size > len(content):
            raise CorruptObject(f"tree {name} is malformed at byte {position}")
        digits = content[position:space]
        if not digits.isdigit() or b"8" in digits or b"9" in digits or end == space + 1:
            raise CorruptObject(f"tree {name} has a malformed entry at byte {position}")
        object_name = content[end + 1 : end + 1 + size].hex()
        entries.append(TreeEntry(int(digits, 8), content[space + 1 : end], object_name))
        position = end + 1 + size
    return entries


def check_tree(entries: Sequence[TreeEntry], name: str) -> None:
    """What `git fsck --strict` demands of a tree. Raises CorruptObject."""
    keys = [tree_order(entry) for entry in entries]
    if any(first >= second for first, second in pairwise(keys)):
        raise CorruptObject(f"tree {name} is not properly sorted")
    if len({entry.name for entry in entries}) != len(entries):
        raise CorruptObject(f"tree {name} contains duplicate entries")
    for entry in entries:
        if entry.mode not in _MODES:
            raise CorruptObject(f"tree {name} has an entry of mode {entry.mode:o}")
        if b"/" in entry.name or entry.name.lower() in (b".", b"..", b".git"):
            raise CorruptObject(f"tree {name} has an entry named {entry.name!r}")
        if not entry.object_name.strip("0"):
            raise CorruptObject(f"tree {name} has an entry with a null object name")


class Commit(NamedTuple):
    """A commit.

    :ivar tree: the object name of its tree.
    :ivar parents: those of its parents, the first being the branch's.
    :ivar author: `NAME <EMAIL> SECONDS ZONE`, as are all identities.
    :ivar extra: further header lines, with their ends of line (encoding, gpgsig, …).
    :ivar message: everything after the empty line.
    """

    tree: str
    parents: tuple[str, ...]
    author: bytes
    committer: bytes
    message: bytes
    extra: bytes = b""

    @property
    def time(self) -> int:
        """When it was committed, in seconds since the epoch."""
        return identity_time(self.committer)

    @property
    def subject(self) -> str:
        """The message's first paragraph on one line, as git shows it."""
        paragraph = self.message.lstrip(b"\n").split(b"\n\n", 1)[0]
        return b" ".join(paragraph.split(b"\n")).strip().decode("utf-8", "surrogateescape")


def format_commit(commit: Commit) -> bytes:
    """The content of a commit object. Raises InvalidObject for a malformed identity or a NUL."""
    for identity in (commit.author, commit.committer):
        if not _IDENTITY.fullmatch(identity):
            raise InvalidObject(f"malformed identity {identity!r}")
    if b"\0" in commit.message:
        raise InvalidObject("a NUL byte in commit log message not allowed.")
    lines = [b"tree " + commit.tree.encode()]
    lines += [b"parent " + parent.encode() for parent in commit.parents]
    lines += [b"author " + commit.author, b"committer " + commit.committer, commit.extra]
    return b"\n".join(lines) + b"\n" + commit.message


def parse_commit(content: bytes, name: str, algorithm: HashAlgorithm) -> Commit:
    """What is in a commit. Raises CorruptObject, saying what is wrong with it."""
    headers, separator, message = content.partition(b"\n\n")
    lines = (headers + b"\n").splitlines(keepends=True) if separator else content.splitlines(True)
    try:
        tree = _header(lines, b"tree")
        parents = []
        while lines and lines[0].startswith(b"parent "):
            parents.append(_header(lines, b"parent"))
        author, committer = _header(lines, b"author"), _header(lines, b"committer")
        names = [line.decode("ascii") for line in (tree, *parents)]
    except (ValueError, UnicodeDecodeError) as error:
        raise CorruptObject(f"commit {name}: {error}") from None
    if not all(algorithm.is_name(text) for text in names):
        raise CorruptObject(f"commit {name} has a malformed tree or parent line")
    extra = b"".join(lines)
    return Commit(names[0], tuple(names[1:]), author, committer, message, extra)


def _header(lines: list[bytes], word: bytes) -> bytes:
    if not lines or not lines[0].startswith(word + b" ") or not lines[0].endswith(b"\n"):
        raise ValueError(f"the {word.decode()} line is missing or malformed")
    return lines.pop(0)[len(word) + 1 : -1]


class Tag(NamedTuple):
    """An annotated tag. :ivar tagger: empty in some of the oldest ones."""

    object_name: str
    object_type: str
    tag: bytes
    tagger: bytes
    message: bytes


def format_tag(tag: Tag) -> bytes:
    """The content of a tag object. Raises InvalidObject for a malformed identity."""
    if not _IDENTITY.fullmatch(tag.tagger):
        raise InvalidObject(f"malformed identity {tag.tagger!r}")
    return b"object %s\ntype %s\ntag %s\ntagger %s\n\n%s" % (
        tag.object_name.encode(),
        tag.object_type.encode(),
        tag.tag,
        tag.tagger,
        tag.message,
    )


def parse_tag(content: bytes, name: str, algorithm: HashAlgorithm) -> Tag:
    """What is in a tag. Raises CorruptObject, saying what is wrong with it."""
    headers, separator, message = content.partition(b"\n\n")
    lines = (headers + b"\n").splitlines(keepends=True) if separator else content.splitlines(True)
    try:
        target = _header(lines, b"object").decode("ascii")
        kind = _header(lines, b"type").decode("ascii")
        tag = _header(lines, b"tag")
        tagger = _header(lines, b"tagger") if lines and lines[0].startswith(b"tagger") else b""
    except (ValueError, UnicodeDecodeError) as error:
        raise CorruptObject(f"tag {name}: {error}") from None
    if not algorithm.is_name(target) or kind not in TYPES:
        raise CorruptObject(f"tag {name} has a malformed object or type line")
    return Tag(target, kind, tag, tagger, message)


def identity_time(identity: bytes) -> int:
    """The seconds since the epoch in an identity line; 0 if there are none (old, broken ones)."""
    fields = identity.rsplit(b" ", 2)
    return int(fields[1]) if len(fields) == 3 and fields[1].isdigit() else 0

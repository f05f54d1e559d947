"""Git objects: their names, and what they point to.

Format: gitformat-loose(5) and the object chapters of gitdatamodel(7). An object whose bytes hash to
its name is what git once wrote, so nothing here lints contents: that is `git fsck`'s business.
"""

import hashlib
import zlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from crashsim.oracles.git.damage import Damage, FormatError, classify

OBJECT_LIMIT_BYTES = 512 << 20
"""Larger objects are refused: guests are not trusted, and zlib can grow 1000 times."""


class ObjectKind(StrEnum):
    """The four types of object."""

    COMMIT = "commit"
    TREE = "tree"
    BLOB = "blob"
    TAG = "tag"


@dataclass(frozen=True, slots=True)
class Link:
    """A pointer from one object to another.

    :ivar target: the raw object name.
    :ivar kind: what the target must be; None where the pointer does not say.
    """

    target: bytes
    kind: ObjectKind | None


@dataclass(frozen=True, slots=True)
class GitObject:
    """A whole object.

    :ivar oid: the raw object name, computed from the content.
    :ivar links: what it points to, in order; a commit's tree is first, then its parents.
        Submodule entries of trees are left out: their commits live in another repository.
    :ivar committed_seconds: a commit's committer date; 0 for anything else.
    """

    oid: bytes
    kind: ObjectKind
    size_bytes: int
    links: tuple[Link, ...] = ()
    committed_seconds: int = 0


class ObjectTooLarge(FormatError):
    """An object is larger than `OBJECT_LIMIT_BYTES`."""


@dataclass(frozen=True, slots=True)
class ObjectFormat:
    """A hash algorithm, as `extensions.objectFormat` names it."""

    name: str
    size_bytes: int

    def new(self, content: bytes = b"") -> Any:
        """A hashlib object."""
        return hashlib.new(self.name, content, usedforsecurity=False)

    def digest(self, content: bytes) -> bytes:
        """The raw hash of `content`."""
        return bytes(self.new(content).digest())

    @property
    def hex_size(self) -> int:
        """Digits of an object name."""
        return 2 * self.size_bytes


SHA1 = ObjectFormat("sha1", 20)
SHA256 = ObjectFormat("sha256", 32)
OBJECT_FORMATS = {SHA1.name: SHA1, SHA256.name: SHA256}

_KINDS = {kind.value.encode(): kind for kind in ObjectKind}
_TREE_MODE = 0o40000
_SUBMODULE_MODE = 0o160000


def make_object(kind: ObjectKind, body: bytes, object_format: ObjectFormat) -> GitObject:
    """Name an object and find its links. Raises FormatError when its body does not parse."""
    header = f"{kind.value} {len(body)}\0".encode()
    hasher = object_format.new(header)
    hasher.update(body)
    oid = bytes(hasher.digest())
    links, seconds = _links(kind, body, object_format)
    return GitObject(oid, kind, len(body), links, seconds)


def parse_loose(content: bytes, object_format: ObjectFormat) -> GitObject | Damage:
    """Read a loose object file: one zlib stream of `<type> <size>\\0<body>`, no more."""
    try:
        return _parse_loose(content, object_format)
    except (FormatError, zlib.error) as error:
        return classify(content, str(error))


def _parse_loose(content: bytes, object_format: ObjectFormat) -> GitObject:
    stream = zlib.decompressobj()
    start = stream.decompress(content, 4096)
    header, separator, body = start.partition(b"\0")
    if not separator or len(header) > 32:
        raise FormatError("has no object header")
    word, _, digits = header.partition(b" ")
    if word not in _KINDS or not digits.isdigit():
        raise FormatError(f"has a bad object header {header[:32]!r}")
    size_bytes = int(digits)
    if size_bytes > OBJECT_LIMIT_BYTES:
        raise ObjectTooLarge(f"claims to hold {size_bytes} bytes")
    missing_bytes = size_bytes - len(body)
    if missing_bytes < 0:
        raise FormatError(f"inflates to more than its {size_bytes} bytes")
    body += stream.decompress(stream.unconsumed_tail, missing_bytes + 1)
    if len(body) != size_bytes:
        raise FormatError(f"inflates to {len(body)} bytes instead of {size_bytes}")
    if not stream.eof:
        body += stream.decompress(stream.unconsumed_tail, 1)
        if not stream.eof or len(body) != size_bytes:
            raise FormatError("ends within its zlib stream")
    if stream.unused_data:
        raise FormatError(f"has {len(stream.unused_data)} bytes after its zlib stream")
    return make_object(_KINDS[word], body, object_format)


def _links(
    kind: ObjectKind, body: bytes, object_format: ObjectFormat
) -> tuple[tuple[Link, ...], int]:
    if kind is ObjectKind.BLOB:
        return (), 0
    if kind is ObjectKind.TREE:
        return _tree_links(body, object_format.size_bytes), 0
    if kind is ObjectKind.COMMIT:
        return _commit_links(body, object_format.size_bytes)
    return _tag_links(body, object_format.size_bytes), 0


def _tree_links(body: bytes, oid_bytes: int) -> tuple[Link, ...]:
    links = []
    position = 0
    while position < len(body):
        space = body.find(b" ", position, position + 8)
        end = body.find(b"\0", space)
        if space < 0 or end < 0 or end + 1 + oid_bytes > len(body):
            raise FormatError(f"is a tree whose entry at byte {position} is incomplete")
        try:
            mode = int(body[position:space], 8)
        except ValueError as error:
            raise FormatError(f"is a tree with a bad mode at byte {position}") from error
        position = end + 1 + oid_bytes
        if mode == _TREE_MODE:
            links.append(Link(body[end + 1 : position], ObjectKind.TREE))
        elif mode != _SUBMODULE_MODE:
            links.append(Link(body[end + 1 : position], ObjectKind.BLOB))
    return tuple(links)


def _header_lines(body: bytes) -> list[tuple[bytes, bytes]]:
    head = body.partition(b"\n\n")[0]
    return [
        (word, value)
        for word, _, value in (line.partition(b" ") for line in head.split(b"\n"))
        if word
    ]


def _oid(value: bytes, oid_bytes: int) -> bytes:
    try:
        oid = bytes.fromhex(value.decode("ascii"))
    except ValueError as error:
        raise FormatError(f"names a bad object {value[:64]!r}") from error
    if len(oid) != oid_bytes:
        raise FormatError(f"names an object by {len(oid)} bytes instead of {oid_bytes}")
    return oid


def _commit_links(body: bytes, oid_bytes: int) -> tuple[tuple[Link, ...], int]:
    lines = _header_lines(body)
    if not lines or lines[0][0] != b"tree":
        raise FormatError("is a commit without a tree")
    links = [Link(_oid(lines[0][1], oid_bytes), ObjectKind.TREE)]
    position = 1
    while position < len(lines) and lines[position][0] == b"parent":
        links.append(Link(_oid(lines[position][1], oid_bytes), ObjectKind.COMMIT))
        position += 1
    seconds = 0
    for word, value in lines[position:]:
        if word == b"committer":
            digits = value.rpartition(b"> ")[2].partition(b" ")[0]
            seconds = int(digits) if digits.isdigit() else 0
            break
    return tuple(links), seconds


def _tag_links(body: bytes, oid_bytes: int) -> tuple[Link, ...]:
    lines = _header_lines(body)
    if len(lines) < 2 or lines[0][0] != b"object" or lines[1][0] != b"type":
        raise FormatError("is a tag without an object")
    if lines[1][1] not in _KINDS:
        raise FormatError(f"is a tag of a bad type {lines[1][1][:16]!r}")
    return (Link(_oid(lines[0][1], oid_bytes), _KINDS[lines[1][1]]),)

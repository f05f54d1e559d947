"""From what the agent says of a tree to a Tree, believing none of it.

File contents cross the channel once for each guest: the agent remembers the digests that it has
sent, and this side keeps the bytes. They are hashed again here, so a guest cannot pass one content
off as another.
"""

import base64
import binascii
import errno
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Annotated

import msgspec

from crashsim.machines.channel import Content, from_wire
from crashsim.machines.tree import Node, NodeKind, Tree

NODES_MAX = 1_000_000
KEPT_BYTES_MAX = 512 << 20
"""When the contents of a guest grow beyond this, both sides forget them between two trees."""

DIGEST_BYTES = 16
_KINDS = {"f": NodeKind.FILE, "d": NodeKind.DIRECTORY, "l": NodeKind.SYMLINK, "o": NodeKind.OTHER}
_DIGEST = re.compile(r"[0-9a-f]{32}|error:[A-Z0-9]{1,20}|")

_Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]
Row = tuple[str, str, _Count, _Count, str]
Rows = Annotated[list[Row], msgspec.Meta(max_length=NODES_MAX)]


class TreeAnswer(msgspec.Struct):
    """The agent's answer to `tree`."""

    rows: Rows


class RecoverAnswer(msgspec.Struct):
    """The agent's answer to `recover`; no rows where the mount failed with `errno`."""

    rows: Rows | None
    errno: _Count
    kernel_log: str
    tainted: bool
    seconds: dict[str, float]


class UntrueTree(Exception):
    """The guest described a tree that cannot be, or contents with other digests than it said."""


@dataclass
class ContentCache:
    """The contents that one guest has sent.

    :ivar by_digest: given to every Tree; replaced, never emptied, when there is too much.
    """

    by_digest: dict[str, bytes] = field(default_factory=dict)
    kept_bytes: int = 0
    _pieces: dict[str, list[bytes]] = field(default_factory=dict)

    def start(self) -> bool:
        """Before each tree: whether the agent is to forget what it has sent."""
        self._pieces.clear()
        if self.kept_bytes <= KEPT_BYTES_MAX:
            return False
        self.by_digest, self.kept_bytes = {}, 0
        return True

    def take(self, content: Content) -> None:
        """Add a piece of content. Raises UntrueTree."""
        try:
            piece = base64.b64decode(content.data, validate=True)
        except binascii.Error as error:
            raise UntrueTree("the guest sent a content that is not base64") from error
        pieces = self._pieces.setdefault(content.digest, [])
        pieces.append(piece)
        if content.last:
            data = b"".join(self._pieces.pop(content.digest))
            if blake2b(data, digest_size=DIGEST_BYTES).hexdigest() != content.digest:
                raise UntrueTree(f"the guest sent another content than that of {content.digest}")
            self.by_digest[content.digest] = data
            self.kept_bytes += len(data)

    def tree(self, rows: Sequence[Row], collect: Sequence[str]) -> Tree:
        """The tree that `rows` describe, with contents below the `collect` prefixes.

        Raises UntrueTree, also when a content is missing: a check would take that for a missing
        file.
        """
        nodes: dict[str, Node] = {}
        for wire_path, kind, mode, size, digest in rows:
            path = checked_path(wire_path)
            if kind not in _KINDS or mode > 0o7777 or not _DIGEST.fullmatch(digest):
                raise UntrueTree(f"the guest described {path!r} in no known way")
            if path in nodes:
                raise UntrueTree(f"the guest described {path!r} twice")
            nodes[path] = Node(_KINDS[kind], mode, size, digest)
        ordered = {path: nodes[path] for path in sorted(nodes)}
        _check_parents(ordered)
        for path, node in ordered.items():
            readable = node.kind is NodeKind.FILE and not node.digest.startswith("error:")
            if readable and _is_below(path, collect) and node.digest not in self.by_digest:
                raise UntrueTree(f"the guest did not send the content of {path!r}")
        return Tree(ordered, self.by_digest)


def _is_below(path: str, prefixes: Sequence[str]) -> bool:
    return any(not prefix or path == prefix or path.startswith(f"{prefix}/") for prefix in prefixes)


def checked_path(wire_path: str) -> str:
    """A relative path that stays inside of its root. Raises UntrueTree."""
    try:
        path = from_wire(wire_path)
    except UnicodeEncodeError as error:
        raise UntrueTree("the guest sent a path that is not bytes") from error
    parts = path.split("/")
    if "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise UntrueTree(f"the guest sent the path {path!r}")
    return path


def errno_name(number: int) -> str:
    """`EUCLEAN` for 117."""
    return errno.errorcode.get(number, f"E{number}")


def _check_parents(nodes: Mapping[str, Node]) -> None:
    """Everything is in a directory; parents come before children in sorted order or not at all."""
    for path in nodes:
        parent = path.rpartition("/")[0]
        if parent and (parent not in nodes or nodes[parent].kind is not NodeKind.DIRECTORY):
            raise UntrueTree(f"the guest described {path!r}, but no directory that it is in")

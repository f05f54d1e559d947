"""The contents that files are known to have had, and how to find them in what was written."""

import hashlib
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import xxhash

from crashsim.disk.request import PAGE_BYTES
from crashsim.explain.blocks import pieces
from crashsim.machines.tree import NodeKind, Tree

PREPARED = "prepare"
"""The step of the snapshot of what was there at the exploration's start."""

_ZERO_PAGE = bytes(PAGE_BYTES)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The tree as it was after a step of the workload (the first one: before the first step).

    :ivar step: the step's name; `prepare` for what was there at the start.
    """

    step: str
    tree: Tree


@dataclass(frozen=True, slots=True)
class Version:
    """One content that a path had.

    :ivar step: the first step after which it had it.
    """

    path: str
    step: str
    digest: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Piece:
    """Some pages of a file's content inside a write.

    :ivar start: bytes from the write's first byte.
    :ivar pages: which pages of the content, of `page_count`.
    """

    start: int
    digest: str
    pages: range
    page_count: int


class KnownFiles:
    """Every content of every file of the snapshots.

    Pages are found by their content: 4 KiB each, the last one padded with zeroes, as page caches
    write them. Pages of zeroes say nothing and are not looked for. A file whose content was not
    collected is found by its digest where one write holds all of it.

    :ivar steps: the snapshots' names, in order.
    """

    def __init__(self, snapshots: Sequence[Snapshot]) -> None:
        """Index the contents."""
        self._versions: dict[str, list[Version]] = defaultdict(list)
        self._paths: dict[str, list[str]] = defaultdict(list)
        self._contents: dict[str, bytes] = {}
        self._pages: dict[bytes, list[tuple[str, int]]] = defaultdict(list)
        self._digests_by_size: dict[int, set[str]] = defaultdict(set)
        self.steps = [snapshot.step for snapshot in snapshots]
        self._nodes = {snapshot.step: snapshot.tree.nodes for snapshot in snapshots}
        for snapshot in snapshots:
            self._add(snapshot)
        self._sizes = sorted(self._digests_by_size)

    def _add(self, snapshot: Snapshot) -> None:
        for path, node in snapshot.tree.nodes.items():
            versions = self._versions[path]
            if node.kind is not NodeKind.FILE or (versions and versions[-1].digest == node.digest):
                continue
            versions.append(Version(path, snapshot.step, node.digest, node.size_bytes))
            if path not in self._paths[node.digest]:
                self._paths[node.digest].append(path)
            content = snapshot.tree.contents.get(node.digest)
            if content is None:
                self._digests_by_size[node.size_bytes].add(node.digest)
            elif node.digest not in self._contents:
                self._contents[node.digest] = content
                for start, page in pieces(content, PAGE_BYTES):
                    key = _page_key(page)
                    if key is not None:
                        self._pages[key].append((node.digest, start // PAGE_BYTES))

    @property
    def paths(self) -> Mapping[str, Sequence[Version]]:
        """path -> the contents it had, oldest first."""
        return self._versions

    def is_there(self, path: str, step: str) -> bool:
        """Whether a path was there after a step."""
        return path in self._nodes[step]

    def names(self, digest: str) -> Sequence[str]:
        """The paths that had this content at some time."""
        return self._paths.get(digest, ())

    def content(self, digest: str) -> bytes | None:
        """A content; None where only its digest is known."""
        return self._contents.get(digest)

    def find(self, data: bytes) -> list[Piece]:
        """The pieces of known contents in a write's payload, in order; runs of pages joined."""
        found: list[Piece] = []
        for start, page in pieces(data, PAGE_BYTES):
            key = _page_key(page)
            for digest, number in self._pages.get(key, ()) if key is not None else ():
                count = -(-len(self._contents[digest]) // PAGE_BYTES)
                _join(found, Piece(start, digest, range(number, number + 1), count))
        return found or self._find_whole(data)

    def _find_whole(self, data: bytes) -> list[Piece]:
        """The file that fills the write from its first byte to the zeroes at its end."""
        first = bisect_left(
            self._sizes, max(len(data.rstrip(b"\0")), len(data) - PAGE_BYTES + 1, 1)
        )
        for size in self._sizes[first : bisect_right(self._sizes, len(data))]:
            digest = hashlib.blake2b(data[:size], digest_size=16).hexdigest()
            if digest in self._digests_by_size[size]:
                count = -(-size // PAGE_BYTES)
                return [Piece(0, digest, range(count), count)]
        return []


def _page_key(page: bytes) -> bytes | None:
    padded = page.ljust(PAGE_BYTES, b"\0")
    return None if padded == _ZERO_PAGE else xxhash.xxh3_128_digest(padded)


def _join(found: list[Piece], piece: Piece) -> None:
    """Add a piece, or lengthen the one that it continues."""
    for index, other in enumerate(found):
        follows = other.start + len(other.pages) * PAGE_BYTES == piece.start
        if follows and other.digest == piece.digest and other.pages.stop == piece.pages.start:
            pages = range(other.pages.start, piece.pages.stop)
            found[index] = Piece(other.start, other.digest, pages, other.page_count)
            return
    found.append(piece)

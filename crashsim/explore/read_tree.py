"""An index of decided reads: has a recovery that would read exactly this been seen before?

A recovery is a deterministic program over the disk: what it reads next depends on nothing but what
it has read so far. So if a state holds, in every page that an earlier recovery read, what that
recovery read there, then recovery takes the same way through it and ends in the same outcome. That
condition is checked in full before anything is returned; the tree below only finds the candidate
without comparing every one, at a cost that depends on how much recovery reads and neither on the
length of the log nor on how many recoveries were seen.

The same determinism shapes the tree: all recoveries that agree so far read the same page next, so
there is always a page to branch on. It is not known which one that is, only what was read; a page
that later recoveries turn out not to read is replaced once enough of them have come. Kernels
read ahead and in parallel, which blurs this a little; what fits no branch is kept in a small
bucket beside it. Losing a bucket's oldest entries costs repeated recoveries, never a wrong answer.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

V = TypeVar("V")

BUCKET_LIMIT = 8
"""How many recoveries that no page tells apart are kept side by side."""

DIGEST_BYTES = 16
PageDigest = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class _Leaf(Generic[V]):
    """One recovery and its outcome.

    There may be thousands of them with a thousand pages each, so they are kept packed.

    :ivar pages: the pages that it read, ascending.
    :ivar contents: the digests of what they held, `DIGEST_BYTES` each.
    """

    pages: "array[int]"
    contents: bytes
    value: V

    @classmethod
    def of(cls, reads: Mapping[int, int], value: V) -> "_Leaf[V]":
        pages = array("q", sorted(reads))
        contents = (reads[page].to_bytes(DIGEST_BYTES, "little") for page in pages)
        return cls(pages, b"".join(contents), value)

    def matches(self, digest: PageDigest) -> bool:
        return all(digest(page) == self._content_at(at) for at, page in enumerate(self.pages))

    def content(self, page: int) -> int | None:
        """What it found in a page; None if it did not read it."""
        at = bisect_left(self.pages, page)
        found = at < len(self.pages) and self.pages[at] == page
        return self._content_at(at) if found else None

    def _content_at(self, at: int) -> int:
        place = at * DIGEST_BYTES
        return int.from_bytes(self.contents[place : place + DIGEST_BYTES], "little")


@dataclass(slots=True)
class _Node(Generic[V]):
    """Recoveries that agree so far.

    :ivar page: the page to branch on; None while the recoveries are few enough to sit in `leaves`.
    :ivar children: content of that page -> the recoveries that read it.
    :ivar leaves: the bucket: recoveries that did not read `page`, or all while there is none.
    """

    page: int | None = None
    children: dict[int, "_Node[V]"] = field(default_factory=dict)
    leaves: list[_Leaf[V]] = field(default_factory=list)

    def add(self, leaf: _Leaf[V]) -> None:
        node = self
        while node.page is not None and (content := leaf.content(node.page)) is not None:
            node = node.children.setdefault(content, _Node())
        node.leaves.append(leaf)
        if node.page is None or len(node.leaves) > BUCKET_LIMIT:
            node._branch_anew()

    def _all_leaves(self) -> list[_Leaf[V]]:
        """Not by recursion: recoveries that differ in one page each make a tree that is a chain."""
        leaves: list[_Leaf[V]] = []
        nodes = [self]
        while nodes:
            node = nodes.pop()
            leaves += node.leaves
            nodes += node.children.values()
        return leaves

    def _branch_anew(self) -> None:
        """Branch on a page that everything in here read, if there is one, or else make room."""
        leaves = self._all_leaves()
        page = _splitting_page(leaves)
        if page is not None:
            self.page, self.children, self.leaves = page, {}, []
            for leaf in leaves:
                self.add(leaf)
        elif len(self.leaves) > BUCKET_LIMIT:
            del self.leaves[: BUCKET_LIMIT // 2]


def _splitting_page(leaves: Sequence[_Leaf[V]]) -> int | None:
    """A page that all of these recoveries read, and not all with the same content."""
    for page in leaves[0].pages:
        first = leaves[0].content(page)
        contents = [leaf.content(page) for leaf in leaves]
        if None not in contents and any(content != first for content in contents):
            return page
    return None


class ReadTree(Generic[V]):
    """Outcomes of recoveries, found by the content of the pages that they read."""

    def __init__(self) -> None:
        """Start with nothing decided."""
        self._root: _Node[V] = _Node()

    def find(self, digest: PageDigest) -> V | None:
        """The outcome of a recovery all of whose reads would find the same content.

        :param digest: the digest of a page's content in the state that is asked about.
        """
        node: _Node[V] | None = self._root
        while node is not None:
            for leaf in node.leaves:
                if leaf.matches(digest):
                    return leaf.value
            node = None if node.page is None else node.children.get(digest(node.page))
        return None

    def add(self, reads: Mapping[int, int], value: V) -> None:
        """Note that a recovery that found `reads` (page -> 128-bit digest) gave `value`.

        `reads` must hold every page that the recovery read and that can differ between two of the
        states that are asked about: one that is missing makes later answers wrong.
        """
        self._root.add(_Leaf.of(reads, value))

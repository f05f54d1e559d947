"""An index of decided reads: has a recovery that would read exactly this been seen before?

A recovery is a deterministic program over the disk: what it reads next depends on nothing but what
it has read so far. So if a state holds, in every page that an earlier recovery read, what that
recovery read there, then recovery takes the same way through it and ends in the same outcome. That
condition is checked in full before anything is returned; the tree below only finds the candidate
without comparing every one, at a cost that depends on how much recovery reads and neither on the
length of the log nor on how many recoveries were seen.

The same determinism shapes the tree: all recoveries that agree so far read the same page next, so
there is always a page to branch on. Kernels read ahead and in parallel, which blurs this a
little; what does not fit a branch goes into a small bucket beside it. Losing a bucket's oldest
entry costs a repeated recovery, never a wrong answer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, TypeVar

V = TypeVar("V")

BUCKET_LIMIT = 8
"""How many recoveries that no page tells apart are kept side by side."""

Digest = int | bytes
PageDigest = Callable[[int], Digest]


@dataclass(frozen=True, slots=True)
class _Leaf(Generic[V]):
    """One recovery: the pages that it read with the digests of what they held, and the outcome."""

    reads: Mapping[int, Digest]
    value: V

    def matches(self, digest: PageDigest) -> bool:
        return all(digest(page) == content for page, content in self.reads.items())


@dataclass(slots=True)
class _Node(Generic[V]):
    """Recoveries that agree so far.

    :ivar page: the page to branch on; None while the recoveries are few enough to sit in `leaves`.
    :ivar children: content of that page -> the recoveries that read it.
    :ivar leaves: the bucket: recoveries that did not read `page`, or all while there is none.
    """

    page: int | None = None
    children: dict[Digest, "_Node[V]"] = field(default_factory=dict)
    leaves: list[_Leaf[V]] = field(default_factory=list)

    def add(self, leaf: _Leaf[V]) -> None:
        self.leaves.append(leaf)
        if self.page is None:
            self._split()
        del self.leaves[:-BUCKET_LIMIT]

    def _split(self) -> None:
        page = self._splitting_page()
        if page is None:
            return
        self.page = page
        for leaf in self.leaves:
            self.children.setdefault(leaf.reads[page], _Node()).leaves.append(leaf)
        self.leaves = []

    def _splitting_page(self) -> int | None:
        """A page that every recovery in here read, and not all with the same content."""
        first, *rest = self.leaves
        for page, content in first.reads.items():
            if all(page in leaf.reads for leaf in rest) and any(
                leaf.reads[page] != content for leaf in rest
            ):
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

    def add(self, reads: Mapping[int, Digest], value: V) -> None:
        """Note that a recovery that found `reads` (page -> digest of its content) gave `value`.

        `reads` must hold every page that the recovery read and that can differ between two of the
        states that are asked about: one that is missing makes later answers wrong.
        """
        node = self._root
        while node.page is not None and node.page in reads:
            node = node.children.setdefault(reads[node.page], _Node())
        node.add(_Leaf(reads, value))

"""What a filesystem holds at one moment: an immutable tree, with a digest that tells it apart.

A tree's digest is the sum, modulo 2**128, of one hash for each path. A tree that differs from
another in one file differs from it in one addition: so crash states are told apart without being
built.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from xxhash import xxh3_128_intdigest

DIGEST_MASK = (1 << 128) - 1
ROOT_INODE = 1
"""The inode number of every tree's root, which has no path and is no node of its tree."""


@dataclass(frozen=True, slots=True)
class File:
    """A regular file. `mode` has its permission bits only."""

    content: bytes = b""
    mode: int = 0o644
    digest: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Compute the digest."""
        object.__setattr__(self, "digest", xxh3_128_intdigest(self.content, self.mode))


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory; its entries are the paths below it."""

    mode: int = 0o755
    digest: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Compute the digest."""
        object.__setattr__(self, "digest", xxh3_128_intdigest(b"directory", self.mode))


@dataclass(frozen=True, slots=True)
class Symlink:
    """A symbolic link and what it says."""

    content: str
    digest: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Compute the digest."""
        text = self.content.encode("utf-8", "surrogateescape")
        object.__setattr__(self, "digest", xxh3_128_intdigest(b"symlink\0" + text))


Node: TypeAlias = File | Directory | Symlink


def weight(path: str, node: Node) -> int:
    """What one path adds to its tree's digest."""
    name = path.encode("utf-8", "surrogateescape")
    return xxh3_128_intdigest(name + b"\0" + node.digest.to_bytes(16, "big"))


class Tree(Mapping[str, Node]):
    """Paths, relative to the root and without a leading slash, and what is there.

    Hard links are paths with equal inode numbers. Neither inode numbers nor times are part of the
    digest, nor of equality: a check that depends on them cannot be remembered by digest.

    :ivar nodes: the same as a plain dictionary, which is faster to go through.
    :ivar inodes: the inode number of each path.
    """

    __slots__ = ("digest", "inodes", "nodes")

    def __init__(self, nodes: dict[str, Node], inodes: Mapping[str, int], digest: int) -> None:
        """Take over what was computed; see `Tree.of` for making one."""
        self.nodes = nodes
        self.inodes = inodes
        self.digest = digest

    @classmethod
    def of(cls, contents: Mapping[str, Node | bytes]) -> "Tree":
        """A tree of these files (bytes: a plain file), with the directories that they need."""
        nodes: dict[str, Node] = {}
        for path, content in contents.items():
            parts = path.split("/")
            for length in range(1, len(parts)):
                nodes.setdefault("/".join(parts[:length]), Directory())
            nodes[path] = File(content) if isinstance(content, bytes) else content
        inodes = {path: number for number, path in enumerate(nodes, ROOT_INODE + 1)}
        return cls(nodes, inodes, digest_of(nodes))

    def __getitem__(self, path: str) -> Node:
        """What is at a path. Raises KeyError."""
        return self.nodes[path]

    def __iter__(self) -> Iterator[str]:
        """Every path."""
        return iter(self.nodes)

    def __len__(self) -> int:
        """How many paths."""
        return len(self.nodes)

    def __eq__(self, other: object) -> bool:
        """Equal digests."""
        return isinstance(other, Tree) and self.digest == other.digest

    def __hash__(self) -> int:
        """Of the digest."""
        return hash(self.digest)

    def content(self, path: str) -> bytes | None:
        """The content of a regular file; None where there is no such file."""
        node = self.nodes.get(path)
        return node.content if isinstance(node, File) else None

    def __repr__(self) -> str:
        """For failing tests."""
        return f"Tree({self.nodes!r})"


def digest_of(nodes: Mapping[str, Node]) -> int:
    """The digest of a tree with these paths."""
    return sum(weight(path, node) for path, node in nodes.items()) & DIGEST_MASK


EMPTY_TREE = Tree.of({})

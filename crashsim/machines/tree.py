"""A recovered directory tree, as the guest's agent reports it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import xxhash


class NodeKind(StrEnum):
    """What a path is."""

    FILE = "file"
    DIRECTORY = "directory"
    SYMLINK = "symlink"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Node:
    """One path of a tree.

    :ivar mode: permission bits (the low 12 bits of st_mode).
    :ivar size_bytes: the file's size; 0 for anything that is not a file.
    :ivar digest: BLAKE2b-128 of the content (file) or of the target (symlink), hexadecimal;
        empty for directories.  `error:<ERRNO>` where reading failed (for example `error:EIO`).
    """

    kind: NodeKind
    mode: int
    size_bytes: int = 0
    digest: str = ""


@dataclass(frozen=True)
class Tree:
    """A directory tree: everything that a check may depend on, and nothing else.

    Times, inode numbers and link counts are left out on purpose: they differ between two
    recoveries of one image without any meaning for the program.

    :ivar nodes: relative path (no leading slash, `/` between parts, surrogateescape decoded) ->
        node, sorted by path. The root itself is not in it.
    :ivar contents: digest -> bytes, for the files whose content was collected. Shared between
        trees; may hold more than this tree needs.
    """

    nodes: Mapping[str, Node]
    contents: Mapping[str, bytes] = field(repr=False, default_factory=dict)

    @property
    def identity(self) -> int:
        """A 128-bit hash of all nodes: equal trees have equal identities."""
        digest = xxhash.xxh3_128()
        for path, node in self.nodes.items():
            digest.update(
                f"{path}\0{node.kind}\0{node.mode:o}\0{node.size_bytes}\0{node.digest}\n".encode(
                    "utf-8", "surrogateescape"
                )
            )
        return digest.intdigest()

    def read(self, path: str) -> bytes | None:
        """The content of the file at `path`; None where there is no such (readable) file."""
        node = self.nodes.get(path)
        if node is None or node.kind is not NodeKind.FILE:
            return None
        return self.contents.get(node.digest)

    def below(self, directory: str) -> Iterator[tuple[str, Node]]:
        """Every (path, node) strictly below `directory`, in path order."""
        prefix = directory.rstrip("/") + "/" if directory else ""
        for path, node in self.nodes.items():
            if path.startswith(prefix) and path != prefix:
                yield path, node

"""The index' cached trees (its TREE extension): the object names of unchanged directories.

Source: gitformat-index(5), "Cache tree".
"""

from impl.objects.hashes import HashAlgorithm

_DEPTH_MAX = 250
"""Trees that are nested deeper are not taken from the index, only written anew."""


class _TooDeep(Exception):
    """The extension is nested deeper than is of use here."""


class CachedTree:
    """What is known of one directory.

    :ivar entry_count: how many index entries it covers; negative if it has changed since.
    :ivar object_name: of its tree, if `entry_count` is not negative.
    :ivar children: by name, those of its directories of which anything is known.
    """

    __slots__ = ("children", "entry_count", "object_name")

    def __init__(self, entry_count: int = -1, object_name: str = "") -> None:
        """Of a directory of which nothing is known, unless arguments say otherwise."""
        self.entry_count = entry_count
        self.object_name = object_name
        self.children: dict[bytes, CachedTree] = {}

    @property
    def is_valid(self) -> bool:
        """Whether the directory has not changed since its tree was written."""
        return self.entry_count >= 0

    def copy(self) -> "CachedTree":
        """The same knowledge, to be changed by itself."""
        twin = CachedTree(self.entry_count, self.object_name)
        twin.children = {name: child.copy() for name, child in self.children.items()}
        return twin

    def invalidate(self, path: bytes) -> None:
        """Forget the trees of all directories above a path, and of one that was in its place."""
        tree: CachedTree | None = self
        parts = path.split(b"/")
        for part in parts[:-1]:
            if tree is None:
                return
            tree.entry_count = -1
            tree = tree.children.get(part)
        if tree is not None:
            tree.entry_count = -1
            tree.children.pop(parts[-1], None)


def parse_trees(data: bytes, algorithm: HashAlgorithm) -> CachedTree | None:
    """The extension's content; None if it is of no use. Raises ValueError, saying what is wrong."""
    if not data:
        return None
    try:
        name, root, position = _parse_one(data, 0, algorithm, 0)
    except _TooDeep:
        return None
    if name or position != len(data):
        raise ValueError("the cached trees have no single root")
    return root


def _parse_one(
    data: bytes, position: int, algorithm: HashAlgorithm, depth: int
) -> tuple[bytes, CachedTree, int]:
    if depth > _DEPTH_MAX:
        raise _TooDeep
    nul = data.index(b"\0", position)
    name = data[position:nul]
    newline = data.index(b"\n", nul)
    count, subtrees = (int(number) for number in data[nul + 1 : newline].split(b" "))
    position = newline + 1
    tree = CachedTree(max(count, -1))
    if count >= 0:
        digest = data[position : position + algorithm.size_bytes]
        if len(digest) != algorithm.size_bytes:
            raise ValueError("the cached trees are cut off")
        tree.object_name = digest.hex()
        position += algorithm.size_bytes
    for _ in range(subtrees):
        child_name, child, position = _parse_one(data, position, algorithm, depth + 1)
        if not child_name or child_name in tree.children:
            raise ValueError("the cached trees name a directory twice")
        tree.children[child_name] = child
    return name, tree, position


def format_trees(root: CachedTree) -> bytes:
    """The extension's content. Directories are ordered as git does: by length, then by bytes."""
    parts: list[bytes] = []

    def add(name: bytes, tree: CachedTree) -> None:
        parts.append(b"%s\0%d %d\n" % (name, tree.entry_count, len(tree.children)))
        if tree.is_valid:
            parts.append(bytes.fromhex(tree.object_name))
        for child in sorted(tree.children, key=lambda child: (len(child), child)):
            add(child, tree.children[child])

    add(b"", root)
    return b"".join(parts)

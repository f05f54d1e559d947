"""A directory of this host as a `Tree`, hashed and collected as the guest's agent does it."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from crashsim.machines.tree import Node, NodeKind, Tree


def host_tree(root: Path, *, exclude: frozenset[str] = frozenset()) -> Tree:
    """Everything below `root`, contents included.

    :param exclude: names of directories that are left out wherever they are.
    """
    nodes: dict[str, Node] = {}
    contents: dict[str, bytes] = {}
    for directory, names, files in os.walk(root):
        names[:] = [name for name in names if name not in exclude]
        for name in [*names, *files]:
            path = Path(directory, name)
            node, content = _node(path)
            nodes[str(path.relative_to(root))] = node
            if content is not None:
                contents[node.digest] = content
    return Tree(dict(sorted(nodes.items())), contents)


def changed_tree(tree: Tree, files: Mapping[str, bytes | None]) -> Tree:
    """The tree with some files replaced (bytes) or removed (None)."""
    nodes = dict(tree.nodes)
    contents = dict(tree.contents)
    for path, content in files.items():
        if content is None:
            del nodes[path]
            continue
        digest = _digest(content)
        nodes[path] = Node(NodeKind.FILE, 0o644, len(content), digest)
        contents[digest] = content
    return Tree(dict(sorted(nodes.items())), contents)


def _node(path: Path) -> tuple[Node, bytes | None]:
    status = path.lstat()
    mode = status.st_mode & 0o7777
    if path.is_symlink():
        return Node(NodeKind.SYMLINK, mode, 0, _digest(os.readlink(os.fsencode(path)))), None
    if path.is_dir():
        return Node(NodeKind.DIRECTORY, mode), None
    if not path.is_file():
        return Node(NodeKind.OTHER, mode), None
    content = path.read_bytes()
    return Node(NodeKind.FILE, mode, len(content), _digest(content)), content


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()

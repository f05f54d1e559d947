"""What can be reached from given objects, in the order in which git lists it."""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from typing import NamedTuple

from impl.errors import CorruptObject

_GITLINK_MODE = b"160000"
_TREE_MODES = (b"40000", b"040000")
"""The second is of trees that old tools wrote: git reads it, and its fsck complains."""

Read = Callable[[bytes], tuple[str, bytes]]
"""Reads an object by binary name: its type's word and its content. Raises StoreError."""


class Reached(NamedTuple):
    """One reachable object.

    :ivar name: binary. :ivar type_name: `commit`, `tree`, `blob` or `tag`.
    :ivar path: where a tree or blob was found first, empty for root trees; a tag's own name.
    """

    name: bytes
    type_name: str
    path: bytes


class Commit(NamedTuple):
    """The links and the time of a commit. :ivar seconds: the committer's, since the epoch."""

    tree: bytes
    parents: tuple[bytes, ...]
    seconds: int


class TreeEntry(NamedTuple):
    """One line of a tree that is an object of this repository (submodules are left out)."""

    name: bytes
    type_name: str
    path: bytes


def commit_links(content: bytes, where: bytes) -> Commit:
    """The objects that a commit names.

    :param where: the commit's own name, for the message.
    :raises CorruptObject: it has no tree, or a link that is no object name.
    """
    header = content.partition(b"\n\n")[0].split(b"\n")
    try:
        kind, tree = header[0].split(b" ")
        if kind != b"tree":
            raise ValueError
        parents = []
        for line in header[1:]:
            kind, _, rest = line.partition(b" ")
            if kind != b"parent":
                break
            parents.append(_binary(rest))
        seconds = 0
        for line in header[1:]:
            if line.startswith(b"committer "):
                seconds = int(line.rsplit(b" ", 2)[1])
                break
        return Commit(_binary(tree), tuple(parents), seconds)
    except (ValueError, IndexError):
        raise CorruptObject(f"commit {where.hex()} has malformed links; run fsck") from None


class TagLink(NamedTuple):
    """What a tag names. :ivar tag: the tag's own name, as it says it."""

    name: bytes
    type_name: str
    tag: bytes


def tag_link(content: bytes, where: bytes) -> TagLink:
    """The object that a tag names. :raises CorruptObject: the tag is malformed."""
    lines = content.split(b"\n", 3)
    if len(lines) < 2 or not lines[0].startswith(b"object ") or not lines[1].startswith(b"type "):
        raise CorruptObject(f"tag {where.hex()} has malformed links; run fsck")
    try:
        tag = lines[2][4:] if len(lines) > 2 and lines[2].startswith(b"tag ") else b""
        return TagLink(_binary(lines[0][7:]), lines[1][5:].decode("ascii"), tag)
    except ValueError:
        raise CorruptObject(f"tag {where.hex()} has malformed links; run fsck") from None


def tree_links(content: bytes, name_bytes: int, where: bytes) -> list[TreeEntry]:
    """The objects that a tree names. :raises CorruptObject: the tree is malformed."""
    entries = []
    position = 0
    while position < len(content):
        space = content.find(b" ", position)
        end = content.find(b"\0", space)
        name = content[end + 1 : end + 1 + name_bytes]
        if space < 0 or end < 0 or len(name) != name_bytes:
            raise CorruptObject(f"tree {where.hex()} is malformed; run fsck")
        mode = content[position:space]
        if mode != _GITLINK_MODE:
            type_name = "tree" if mode in _TREE_MODES else "blob"
            entries.append(TreeEntry(name, type_name, content[space + 1 : end]))
        position = end + 1 + name_bytes
    return entries


def _binary(name: bytes) -> bytes:
    return bytes.fromhex(name.decode("ascii"))


class Walk:
    """One traversal. What it has reached is not reached again.

    :ivar commits: the links of the commits reached so far, in the order of their discovery.
    :ivar trees: the objects that each reached tree names, if they are kept.
    """

    def __init__(self, read: Read, name_bytes: int, *, keep_trees: bool = False) -> None:
        """:param keep_trees: fill `trees`."""
        self.trees: dict[bytes, list[bytes]] = {}
        self._keep_trees = keep_trees
        self._read = read
        self._name_bytes = name_bytes
        self._seen: set[bytes] = set()
        self.commits: dict[bytes, Commit] = {}

    def reach(
        self,
        tips: Iterable[bytes],
        excluded: Iterable[bytes] = (),
        *,
        commits_only: bool = False,
    ) -> Iterator[Reached]:
        """Commits (newest first), then tags, then trees and blobs, each once.

        :param tips: binary names of objects of any type.
        :param excluded: what is not to be reached, nor what only it leads to: names of all
            objects that are reachable from it.
        :param commits_only: no trees are read.
        :raises CorruptObject, ObjectMissing: as the reader does.
        """
        self._seen.update(excluded)
        waiting: list[tuple[int, int, bytes]] = []
        later: list[Reached] = []
        for tip in tips:
            self._enter_tip(tip, waiting, later)
        trees: list[Reached] = []
        while waiting:
            _, _, name = heappop(waiting)
            yield Reached(name, "commit", b"")
            commit = self.commits[name]
            trees.append(Reached(commit.tree, "tree", b""))
            for parent in commit.parents:
                if parent not in self._seen:
                    self._enter_commit(parent, self._expect(parent, "commit"), waiting)
        if commits_only:
            return
        for found in later:
            if found.type_name == "tag":
                yield found
        for found in trees + later:
            if found.type_name != "tag":
                yield from self._reach_tree(found)

    def _enter_tip(
        self, name: bytes, waiting: list[tuple[int, int, bytes]], later: list[Reached]
    ) -> None:
        while name not in self._seen:
            type_name, content = self._read(name)
            if type_name == "commit":
                self._enter_commit(name, content, waiting)
                return
            if type_name != "tag":
                later.append(Reached(name, type_name, b""))
                return
            self._seen.add(name)
            link = tag_link(content, name)
            later.append(Reached(name, "tag", link.tag))
            name = link.name

    def _enter_commit(
        self, name: bytes, content: bytes, waiting: list[tuple[int, int, bytes]]
    ) -> None:
        self._seen.add(name)
        commit = commit_links(content, name)
        self.commits[name] = commit
        heappush(waiting, (-commit.seconds, len(self.commits), name))

    def _reach_tree(self, root: Reached) -> Iterator[Reached]:
        stack = [root]
        while stack:
            found = stack.pop()
            if found.name in self._seen:
                continue
            self._seen.add(found.name)
            yield found
            if found.type_name != "tree":
                continue
            prefix = found.path + b"/" if found.path else b""
            entries = tree_links(self._expect(found.name, "tree"), self._name_bytes, found.name)
            if self._keep_trees:
                self.trees[found.name] = [entry.name for entry in entries]
            for entry in reversed(entries):
                if entry.name not in self._seen:
                    stack.append(Reached(entry.name, entry.type_name, prefix + entry.path))

    def _expect(self, name: bytes, type_name: str) -> bytes:
        found, content = self._read(name)
        if found != type_name:
            raise CorruptObject(f"object {name.hex()} is a {found}, not a {type_name}; run fsck")
        return content

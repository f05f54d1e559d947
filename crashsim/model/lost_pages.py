"""Pages that a failed sync dropped: no later sync makes them durable, whatever the model says."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from crashsim.model.operations import FailedSync, Log, Operation, Resize, Write
from crashsim.model.persistence import World, Worlds
from crashsim.model.tree import File, Node, Tree, digest_of


class LostPages:
    """Which changes of which inodes were dropped, as far as a log has been shown.

    :ivar caps: inode -> the number of the first change that was lost.
    """

    def __init__(self) -> None:
        """None yet."""
        self.caps: dict[int, int] = {}

    def observe(self, operation: Operation) -> None:
        """Take the next operation into account.

        What is written to such a file later counts as lost, too (a page is written back whole or
        not at all, and which pages were dropped is not known), until it is emptied.
        """
        match operation:
            case FailedSync():
                for inode, number in operation.lost:
                    self.caps.setdefault(inode, number)
            case Resize(length=0):
                self.caps.pop(operation.inode, None)

    def limit(self, worlds: Worlds) -> Worlds:
        """The worlds of a cut, with no floor above what was dropped."""
        return _Limited(worlds, dict(self.caps)) if self.caps else worlds


@dataclass(frozen=True, slots=True)
class _Limited:
    worlds: Worlds
    caps: Mapping[int, int]

    @property
    def count(self) -> int:
        return self.worlds.count

    def world(self, index: int) -> World:
        world = self.worlds.world(index)
        capped = {inode: min(world.floor(inode), cap) for inode, cap in self.caps.items()}
        return replace(world, floors={**world.floors, **capped})

    def listed(self) -> list[int]:
        return self.worlds.listed()


def after_reboot(log: Log, tree: Tree) -> Tree:
    """What a reboot shows, after everything was written back but the pages that failed syncs lost.

    :param tree: what running programs see at the log's end.
    :returns: the same, where files with lost pages have their old content, and zeros for what is
        behind it: sizes are metadata, and were written.
    """
    lost = LostPages()
    for operation in log.operations:
        lost.observe(operation)
    nodes: dict[str, Node] = dict(tree.nodes)
    for path, number in tree.inodes.items():
        node = nodes[path]
        if number in lost.caps and isinstance(node, File):
            size_bytes = len(node.content)
            old = _content_before(log, number, lost.caps[number])
            nodes[path] = File(old[:size_bytes].ljust(size_bytes, b"\0"), node.mode)
    return Tree(nodes, tree.inodes, digest_of(nodes))


def _content_before(log: Log, inode: int, number: int) -> bytes:
    """What a file held before an operation."""
    content = bytearray()
    for path, each in log.base.inodes.items():
        node = log.base[path]
        if each == inode and isinstance(node, File):
            content = bytearray(node.content)
    for operation in log.operations:
        if operation.number >= number:
            break
        match operation:
            case Write(inode=changed) if changed == inode:
                content.extend(bytes(max(0, operation.end - len(content))))
                content[operation.offset : operation.end] = operation.data
            case Resize(inode=changed) if changed == inode:
                del content[operation.length :]
                content.extend(bytes(operation.length - len(content)))
    return bytes(content)

"""All objects of a repository with their links, and what can be reached in them."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from impl.objects.walk import commit_links, tag_link, tree_links


class Link(NamedTuple):
    """One object's mention of another. :ivar type_name: the type that the other must have."""

    name: bytes
    type_name: str


class Node(NamedTuple):
    """One object that is there and whole."""

    type_name: str
    links: tuple[Link, ...]


class Broken(NamedTuple):
    """A link to what is not there, or is not what it should be."""

    source: bytes
    link: Link


def links_of(type_name: str, content: bytes, name: bytes) -> tuple[Link, ...]:
    """What an object mentions. Raises CorruptObject if it is malformed."""
    if type_name == "tree":
        entries = tree_links(content, len(name), name)
        return tuple(Link(entry.name, entry.type_name) for entry in entries)
    if type_name == "commit":
        commit = commit_links(content, name)
        parents = (Link(parent, "commit") for parent in commit.parents)
        return (Link(commit.tree, "tree"), *parents)
    if type_name == "tag":
        tagged = tag_link(content, name)
        return (Link(tagged.name, tagged.type_name),)
    return ()


class ObjectGraph:
    """Filled once, object by object; then asked."""

    def __init__(self) -> None:
        """Empty."""
        self.nodes: dict[bytes, Node] = {}

    def add(self, name: bytes, type_name: str, links: tuple[Link, ...]) -> None:
        """An object that was read."""
        self.nodes[name] = Node(type_name, links)

    def reach(self, roots: Iterable[bytes]) -> tuple[set[bytes], list[Broken]]:
        """Which objects can be reached, and the broken links on the way."""
        reached: set[bytes] = set()
        broken: list[Broken] = []
        waiting = [root for root in roots if root in self.nodes]
        while waiting:
            name = waiting.pop()
            if name in reached:
                continue
            reached.add(name)
            for link in self.nodes[name].links:
                node = self.nodes.get(link.name)
                if node is None or node.type_name != link.type_name:
                    broken.append(Broken(name, link))
                elif link.name not in reached:
                    waiting.append(link.name)
        return reached, broken

    def dangling(self, reached: set[bytes]) -> Iterator[tuple[bytes, str]]:
        """Unreachable objects that no other object mentions."""
        mentioned = {
            link.name
            for name, node in self.nodes.items()
            if name not in reached
            for link in node.links
        }
        for name, node in self.nodes.items():
            if name not in reached and name not in mentioned:
                yield name, node.type_name

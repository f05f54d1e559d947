"""The crash states of one cut, as a product: a world, and one content for each open file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod
from random import Random

from crashsim.model.contents import Choice, Loss, Lost
from crashsim.model.history import FilesView
from crashsim.model.namespace import Namespace
from crashsim.model.operations import Entry
from crashsim.model.persistence import LISTED_WORLDS_LIMIT, DataRules, World, Worlds
from crashsim.model.tree import DIGEST_MASK, Node, Tree, weight

STATES_PER_RANDOM_WORLD = 4
"""To prepare a world costs as much as some ten states in it."""


@dataclass(frozen=True, slots=True)
class Variable:
    """A file that may have one of several contents.

    :ivar paths: its names in this world.
    :ivar weights: for each choice: what the file then adds to the digest.
    """

    inode: int
    paths: tuple[str, ...]
    choices: tuple[Choice, ...]
    weights: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Prepared:
    """A world with everything that is needed to go through its states.

    :ivar pending: the changes of names that may be lost, kept here or not.
    :ivar digest: of all files that are settled.
    :ivar nodes: those files.
    """

    world: World
    pending: tuple[Entry, ...]
    paths: dict[str, int]
    digest: int
    nodes: dict[str, Node]
    variables: tuple[Variable, ...]

    @cached_property
    def lost(self) -> tuple[Lost, ...]:
        """The changes of names that are not kept, or only in part."""
        kept: dict[int, int] = {}
        for entry in self.world.kept:
            kept[entry.number] = kept.get(entry.number, 0) + len(entry.slots)
        losses = ((e.number, kept.get(e.number, 0), len(e.slots)) for e in self.pending)
        return tuple(
            Lost(number, Loss.PART if slots else Loss.ALL)
            for number, slots, whole in losses
            if slots < whole
        )

    @cached_property
    def last_kept(self) -> int:
        """The highest number of a change of names that is kept, or -1."""
        return max((entry.number for entry in self.world.kept), default=-1)

    @property
    def count(self) -> int:
        """How many states it has."""
        return prod(len(each.choices) for each in self.variables)

    def digest_of(self, picks: Sequence[int]) -> int:
        """The digest of the tree with these choices."""
        total = self.digest
        for variable, pick in zip(self.variables, picks, strict=True):
            total += variable.weights[pick]
        return total & DIGEST_MASK


Point = tuple[Prepared, tuple[int, ...], int]
"""A crash state in its space: the world, one pick for each variable, the digest of the tree."""


class Space:
    """The crash states of one cut.

    :ivar promises: how many promises had been made.
    :ivar least_cut: the power was surely on until here: the last sync or promise had been passed.
    """

    def __init__(
        self,
        cut: int,
        least_cut: int,
        promises: int,
        worlds: Worlds,
        pending: tuple[Entry, ...],
        names: Namespace,
        files: FilesView,
        rules: DataRules,
        pieces: int | None,
    ) -> None:
        """One cut; `names` have what is settled applied, `pending` is what has yet to be."""
        self.cut, self.least_cut = cut, least_cut
        self.promises, self.worlds, self.files = promises, worlds, files
        self._pending = pending
        self._names, self._rules, self._pieces = names, rules, pieces
        self._weights: dict[tuple[str, int], int] = {}
        self._prepared: dict[int, Prepared] = {}
        self._is_weighed = False

    def _weight(self, path: str, node: Node) -> int:
        key = (path, node.digest)
        found = self._weights.get(key)
        if found is None:
            found = self._weights[key] = weight(path, node)
        return found

    def _settled_weight(self, path: str, inode: int) -> int:
        node = self.files.settled.get(inode)
        return 0 if node is None else self._weight(path, node)

    def prepared(self, index: int) -> Prepared:
        """The world with this index, ready to be gone through."""
        found = self._prepared.get(index)
        if found is None:
            found = self._prepare(self.worlds.world(index))
            if len(self._prepared) < LISTED_WORLDS_LIMIT * 2:
                self._prepared[index] = found
        return found

    def _prepare(self, world: World) -> Prepared:
        if not self._is_weighed:
            self._names.weigh(self._settled_weight)
            self._is_weighed = True
        names = self._names.copy()
        for entry in world.kept:
            names.apply(entry)
        places: dict[int, list[str]] = {}
        if self.files.open:
            for path, inode in names.paths.items():
                if inode in self.files.open:
                    places.setdefault(inode, []).append(path)
        variables = []
        for inode, paths in places.items():
            found = self.files.open[inode].choices(
                world.floor(inode), world.horizon_of(inode), self._rules, self._pieces
            )
            weights = tuple(
                sum(self._weight(path, choice.node) for path in paths) for choice in found
            )
            variables.append(Variable(inode, tuple(paths), found, weights))
        settled = self.files.settled
        nodes = {path: settled[i] for path, i in names.paths.items() if i in settled}
        return Prepared(world, self._pending, names.paths, names.digest, nodes, tuple(variables))

    @property
    def possible(self) -> int:
        """How many ways there are to lose something, equal results counted apart.

        Beyond LISTED_WORLDS_LIMIT worlds an upper bound: as if each had as many as the first.
        """
        count = self.worlds.count
        if count > LISTED_WORLDS_LIMIT:
            return count * self.prepared(0).count
        return sum(self.prepared(index).count for index in range(count))

    def every(self) -> Iterator[Point]:
        """Every state, world by world."""
        for index in range(self.worlds.count):
            prepared = self.prepared(index)
            weights = [each.weights for each in prepared.variables]
            ranges = [range(len(each)) for each in weights]
            for picks, parts in zip(product(*ranges), product(*weights), strict=True):
                yield prepared, picks, (prepared.digest + sum(parts)) & DIGEST_MASK

    def simple_first(self, random: Random) -> Iterator[Point]:
        """States from the simple to the wild; it never ends."""
        indices = self.worlds.listed()
        for index in indices:
            prepared = self.prepared(index)
            yield self._point(prepared, [0] * len(prepared.variables))
        for index in indices:
            prepared = self.prepared(index)
            yield self._point(prepared, [len(each.choices) - 1 for each in prepared.variables])
        for index in indices:
            yield from self._deviations(self.prepared(index))
        while True:
            prepared = self.prepared(random.randrange(self.worlds.count))
            for _ in range(min(STATES_PER_RANDOM_WORLD, prepared.count)):
                loss = random.choice((0.5, 0.5, 0.2, 0.8, 1.0))
                picks = [
                    random.randrange(len(each.choices)) if random.random() < loss else 0
                    for each in prepared.variables
                ]
                yield self._point(prepared, picks)

    def _deviations(self, prepared: Prepared) -> Iterator[Point]:
        """One file is not as good as it could be; then: one file is the only one that is."""
        last = [len(each.choices) - 1 for each in prepared.variables]
        for position, most in enumerate(last):
            for pick in range(1, most + 1):
                yield self._point(
                    prepared, [pick if i == position else 0 for i in range(len(last))]
                )
        for position, most in enumerate(last):
            if most:
                picks = last.copy()
                picks[position] = 0
                yield self._point(prepared, picks)

    @staticmethod
    def _point(prepared: Prepared, picks: Sequence[int]) -> Point:
        return prepared, tuple(picks), prepared.digest_of(picks)

    def allows(self, tree: Tree) -> bool:
        """Whether one of its states is this tree."""
        for index in range(self.worlds.count):
            prepared = self.prepared(index)
            if prepared.paths.keys() == tree.keys() and self._allows(prepared, tree):
                return True
        return False

    def _allows(self, prepared: Prepared, tree: Tree) -> bool:
        for variable in prepared.variables:
            wanted = {tree[path].digest for path in variable.paths}
            if not any({choice.node.digest} == wanted for choice in variable.choices):
                return False
        return all(node.digest == tree[path].digest for path, node in prepared.nodes.items())

    def tree(self, prepared: Prepared, picks: Sequence[int]) -> Tree:
        """The filesystem of a state."""
        nodes = prepared.nodes.copy()
        for variable, pick in zip(prepared.variables, picks, strict=True):
            node = variable.choices[pick].node
            for path in variable.paths:
                nodes[path] = node
        return Tree(nodes, prepared.paths, prepared.digest_of(picks))

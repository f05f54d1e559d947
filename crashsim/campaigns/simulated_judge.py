"""Judges the crashes of a run of the store in the model: as git, and by what it may take away."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from crashsim.machines.tree import Node, NodeKind, Tree
from crashsim.model import tree as model_tree
from crashsim.model.operations import Log, Promise
from crashsim.model.states import CrashState
from crashsim.oracles.git import GitOracle, GitSnapshot, snapshot
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.snapshot import DamagedBeforeCrash
from crashsim.oracles.protocol import Moment, Property, Violation
from crashsim.workloads.simulated import WORKTREE

REPOSITORY = "repo/.git"


class Trees:
    """Turns the model's trees into those that oracles read, each file's content hashed once."""

    def __init__(self) -> None:
        """Nothing is known yet."""
        self._nodes: dict[int, Node] = {}
        self._contents: dict[str, bytes] = {}

    def of(self, tree: model_tree.Tree) -> Tree:
        """The same tree."""
        nodes = {path: self._node(node) for path, node in sorted(tree.nodes.items())}
        return Tree(nodes, self._contents)

    def _node(self, node: model_tree.Node) -> Node:
        known = self._nodes.get(node.digest)
        if known is None:
            known = self._nodes[node.digest] = self._made(node)
        return known

    def _made(self, node: model_tree.Node) -> Node:
        match node:
            case model_tree.Directory():
                return Node(NodeKind.DIRECTORY, node.mode)
            case model_tree.Symlink():
                return Node(NodeKind.SYMLINK, 0o777, 0, _digest(node.content.encode()))
            case model_tree.File():
                digest = _digest(node.content)
                self._contents[digest] = node.content
                return Node(NodeKind.FILE, node.mode, len(node.content), digest)


def _digest(content: bytes) -> str:
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def oracle_of(log: Log) -> GitOracle:
    """Judges crashes of a log by the promises that are in it."""
    return GitOracle(_promises(log), REPOSITORY, WORKTREE.strip("/"), exercise_every=0)


def judge(oracle: GitOracle, state: CrashState, trees: Trees) -> list[Violation]:
    """What is broken in a crash state of the oracle's log."""
    return oracle.judge(trees.of(state.tree), Moment(tuple(map(str, state.promises))))


class Judge:
    """Judges crash states of one run; each tree once, whichever model or log it comes from.

    A log without one of the run's syncs has the same promises, and mostly the same crash states.
    """

    def __init__(
        self,
        log: Log,
        trees: Trees,
        ends: tuple[model_tree.Tree, model_tree.Tree] | None = None,
    ) -> None:
        """
        :param ends: before and after the run, where local changes are to be judged as well: the
            run's operation puts them into a stash, or applies that. They are saved and synced.
        """
        self._oracle = oracle_of(log)
        self._trees = trees
        self._cache = ContentCache()
        self._changes: LocalChanges | None = None
        if ends is not None:
            parsed = [(self._parsed(tree), tree) for tree in ends]
            (without, tree), (stashed, _) = sorted(parsed, key=lambda each: len(each[0].stash))
            self._changes = LocalChanges(work_tree(tree), without.index, stashed.stash)
        self._verdicts: dict[tuple[int, int], Sequence[Violation]] = {}

    def __call__(self, state: CrashState) -> Sequence[Violation]:
        """What is broken."""
        key = state.digest, len(state.promises)
        found = self._verdicts.get(key)
        if found is None:
            found = judge(self._oracle, state, self._trees) + self._lost_changes(state.tree)
            self._verdicts[key] = found
        return found

    @property
    def judged(self) -> int:
        """How many different states it has seen."""
        return len(self._verdicts)

    def _lost_changes(self, tree: model_tree.Tree) -> list[Violation]:
        """Changes that are neither where they were nor put away."""
        if self._changes is None:
            return []
        try:
            found = self._parsed(tree)
        except DamagedBeforeCrash:
            return []  # What is damaged is the oracle's to tell.
        lost = self._changes.lost(tree, found)
        if not lost:
            return []
        detail = f"{lost} was saved before, is not what it was, and no stash has it"
        return [Violation(Property.DURABLE, "local-change-lost", lost, detail)]

    def _parsed(self, tree: model_tree.Tree) -> GitSnapshot:
        return snapshot(self._trees.of(tree), REPOSITORY, self._cache)


@dataclass(frozen=True)
class LocalChanges:
    """What the working tree and the index hold while it is not in a stash.

    :ivar files: path -> content.
    :ivar index: `GitSnapshot.index`.
    :ivar stash: the entries while it is.
    """

    files: Mapping[str, bytes]
    index: str
    stash: Sequence[str]

    def lost(self, tree: model_tree.Tree, found: GitSnapshot) -> str:
        """The path of something that is in neither; empty if there is nothing.

        :param found: what the repository in the tree holds.
        """
        if found.stash == self.stash:
            return ""
        if found.index != self.index:
            return "the index"
        gone = (path for path, content in self.files.items() if tree.content(path) != content)
        return next(gone, "")


def work_tree(tree: model_tree.Tree) -> dict[str, bytes]:
    """The files of the working tree: path -> content."""
    top = WORKTREE.strip("/") + "/"
    return {
        path: node.content
        for path, node in tree.nodes.items()
        if isinstance(node, model_tree.File)
        and path.startswith(top)
        and not path.startswith(f"{REPOSITORY}/")
    }


def _promises(log: Log) -> tuple[str, ...]:
    return tuple(str(each.value) for each in log.operations if isinstance(each, Promise))

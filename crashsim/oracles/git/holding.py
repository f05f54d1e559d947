"""How far back a repository has fallen: which of its promises still hold."""

from collections.abc import Sequence

from crashsim.machines.tree import Tree
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.history import Expectation
from crashsim.oracles.git.judging import judge_repository
from crashsim.oracles.git.snapshot import decode_promise, is_promise
from crashsim.oracles.protocol import Property

_BROKEN = frozenset({Property.RECOVERABLE, Property.INTACT, Property.DURABLE})


def promises_held(tree: Tree, git_dir: str, history: Sequence[str], made: int) -> int:
    """How many promises still hold after a crash, counted from the oldest.

    The first n hold if the repository is whole and no part of it is older than promise n left it.

    :param history: texts of all git promises of a recording, oldest first, also those after the
        cut.
    :param made: how many of them were made before the cut.
    Raises what `GitOracle.judge` raises.
    """
    promises = [decode_promise(text) for text in history if is_promise(text)]
    states = [promise.state for promise in promises]
    under_way = promises[made] if made < len(promises) else None
    later = () if under_way is None else (*under_way.legal_between, under_way.state)
    cache = ContentCache()
    for count in range(made, 0, -1):
        expected = Expectation(
            promised=states[count - 1],
            legal=(*states[count - 1 : made], *later),
            older=tuple(states[: count - 1]),
            under_way=under_way,
        )
        found = judge_repository(tree, git_dir, expected, cache)
        if _BROKEN.isdisjoint(each.property for each in found):
            return count
    return 0

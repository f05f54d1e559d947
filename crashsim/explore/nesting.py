"""Which crash states are recovered again, on a disk that records, so that the recovery is cut, too.

Only states that hold everything: what is lost under one that does not may have been lost by the
first cut. Each disk once, under the most that was promised of it; spread over all cuts; and of
several near each other the one whose recovery changes most, since a second cut has most to hit
there.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from crashsim.disk.state import CrashState
from crashsim.explore.exploration import Exploration
from crashsim.explore.timeline import Timeline

PROBES = 3
"""How many states are recovered to choose one of them."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A crash state to recover again.

    :ivar pages_changed: how many pages of the disk its mount changed.
    """

    state: CrashState
    pages_changed: int


def sound_states(
    exploration: Exploration, timeline: Timeline, identity: Callable[[CrashState], int]
) -> list[CrashState]:
    """The explored states that hold everything, each disk once, in the order of their cuts.

    :param identity: equal for states of equal disks.
    """
    by_disk: dict[int, CrashState] = {}
    for state, violations in exploration.verdicts.items():
        if violations or state in exploration.inconclusive:
            continue
        known = by_disk.setdefault(identity(state), state)
        if timeline.promise_count(state.cut) > timeline.promise_count(known.cut):
            by_disk[identity(state)] = state
    return sorted(by_disk.values(), key=_in_order)


def _in_order(state: CrashState) -> tuple[int, list[int], list[tuple[int, tuple[int, ...]]]]:
    torn = sorted((each.write, each.kept_units) for each in state.torn)
    return state.cut, sorted(state.dropped), torn


def groups_of(states: Sequence[CrashState], count: int, seed: int) -> list[list[CrashState]]:
    """The states in at most `count` groups of neighbours, as equal as can be, each shuffled."""
    chooser = Random(f"nested:{seed}")
    count = min(count, len(states))
    bounds = [len(states) * index // count for index in range(count + 1)] if count else [0]
    groups = [list(states[begin:end]) for begin, end in pairwise(bounds)]
    for group in groups:
        chooser.shuffle(group)
    return groups


def choose(
    groups: Sequence[Sequence[CrashState]],
    probe: Callable[[CrashState], int],
    pages_changed_min: int,
) -> Iterator[Chosen]:
    """One state of each group: of the first `PROBES` of it the one whose mount changes most.

    Of several that change as much it is the one with the latest cut: most is promised there.

    :param probe: recovers a state and says how many pages of the disk the mount changed.
    :param pages_changed_min: a group in which none changes so many is left out.
    """
    for group in groups:
        probed = [Chosen(state, probe(state)) for state in group[:PROBES]]
        best = max(probed, key=lambda each: (each.pages_changed, each.state.cut))
        if best.pages_changed >= pages_changed_min:
            yield best

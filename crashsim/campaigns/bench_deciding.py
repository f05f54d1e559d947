"""What the benchmarks of exploring share: states to decide, and a way to decide them in batches."""

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from crashsim.campaigns.benchmark import Meter
from crashsim.campaigns.recorded import Recorded
from crashsim.disk.state import CrashState
from crashsim.explore.cuts import meaningful_cuts
from crashsim.explore.deciding import Decider
from crashsim.explore.recovery import Recoverer
from crashsim.explore.schedule import Schedule
from crashsim.explore.verdict import DecidedBy
from crashsim.machines.protocol import Guest
from crashsim.machines.tree import Tree
from crashsim.oracles.protocol import Moment, Oracle, Property, Violation


class InProcessOnly:
    """An oracle without the programs that another one would run in the guest."""

    def __init__(self, oracle: Oracle) -> None:
        """Judge as `oracle` does."""
        self._oracle = oracle
        self.properties: Sequence[Property] = oracle.properties

    def judge(self, tree: Tree, moment: Moment) -> list[Violation]:
        """As the other one."""
        return self._oracle.judge(tree, moment)

    def exercise_key(self, tree: Tree, moment: Moment) -> object | None:
        """Nothing to do in the guest."""
        return None

    def exercise(self, guest: Guest, root: str, tree: Tree, moment: Moment) -> list[Violation]:
        """Nothing: without a key nobody asks."""
        return []

    def second_opinion(self, guest: Guest, root: str) -> Mapping[str, str]:
        """As the other one."""
        return self._oracle.second_opinion(guest, root)


@dataclass(eq=False)
class Side:
    """One way to decide, and what it took.

    :ivar recoverers: as many as states are decided side by side.
    :ivar meter: has one entry for each state.
    """

    decider: Decider
    recoverers: Sequence[Recoverer]
    meter: Meter = field(default_factory=Meter)
    by: Counter[DecidedBy] = field(default_factory=Counter)

    def decide(self, states: Sequence[CrashState]) -> None:
        """Decide some states."""
        waiting = deque(states)
        with self.meter.measure(len(states)), ThreadPoolExecutor(len(self.recoverers)) as pool:
            for decided in pool.map(partial(self._work, waiting), self.recoverers):
                self.by += decided

    def _work(self, waiting: deque[CrashState], recoverer: Recoverer) -> Counter[DecidedBy]:
        """Decide what nobody else has taken, until there is nothing left."""
        decided: Counter[DecidedBy] = Counter()
        while True:
            try:
                state = waiting.popleft()
            except IndexError:
                return decided
            decided[self.decider.decide(state, recoverer).decided_by] += 1

    @property
    def decided_by(self) -> str:
        """ "same_image 3, check 12"."""
        return ", ".join(f"{how} {self.by[how]}" for how in DecidedBy if self.by[how])


def choose_states(recorded: Recorded, count: int, seed: int = 0) -> list[CrashState]:
    """The first states of a run with this budget; fewer where there are not so many."""
    cuts = meaningful_cuts(recorded.timeline, lambda cut: recorded.images.identity(CrashState(cut)))
    unit = recorded.profile.atomic_unit_bytes
    return list(Schedule(recorded.timeline, cuts, unit, seed, count))

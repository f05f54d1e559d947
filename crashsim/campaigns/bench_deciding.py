"""What the benchmarks of exploring share: states to decide, and a way to decide them in batches."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

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


@dataclass(frozen=True)
class InProcessOnly:
    """An oracle without the programs that another one would run in the guest."""

    oracle: Oracle

    @property
    def properties(self) -> Sequence[Property]:
        """The other one's."""
        return self.oracle.properties

    @properties.setter
    def properties(self, _: Sequence[Property]) -> None:
        raise AttributeError("the properties are the other oracle's")

    def judge(self, tree: Tree, moment: Moment) -> list[Violation]:
        """As the other one."""
        return self.oracle.judge(tree, moment)

    def exercise_key(self, tree: Tree, moment: Moment) -> object | None:
        """Nothing to do in the guest."""
        return None

    def exercise(self, guest: Guest, root: str, tree: Tree, moment: Moment) -> list[Violation]:
        """Nothing: without a key nobody asks."""
        return []


@dataclass(eq=False)
class Side:
    """One way to decide, and what it took.

    :ivar seconds: of each state, in the order of deciding.
    """

    decider: Decider
    recoverer: Recoverer
    seconds: list[float] = field(default_factory=list)
    by: Counter[DecidedBy] = field(default_factory=Counter)

    def decide(self, states: Sequence[CrashState]) -> None:
        """Decide some states."""
        for state in states:
            started = time.perf_counter()
            verdict = self.decider.decide(state, self.recoverer)
            self.seconds.append(time.perf_counter() - started)
            self.by[verdict.decided_by] += 1

    @property
    def decided_by(self) -> str:
        """ "same_image 3, check 12"."""
        return ", ".join(f"{how} {self.by[how]}" for how in DecidedBy if self.by[how])


def choose_states(recorded: Recorded, count: int, seed: int = 0) -> list[CrashState]:
    """The first states of a run with this budget; fewer where there are not so many."""
    cuts = meaningful_cuts(recorded.timeline, lambda cut: recorded.images.identity(CrashState(cut)))
    unit = recorded.profile.atomic_unit_bytes
    return list(Schedule(recorded.timeline, cuts, unit, seed, count))

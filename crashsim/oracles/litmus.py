"""What litmus tests leave: not judged, only told.

An observation travels as a `Violation`, since that is what a verdict carries; its rule is the
outcome, its subject the run, and its property the stage: `atomic` while the calls are being made,
`durable` once they have all returned. A filesystem that does not mount comes the same way.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crashsim.machines.protocol import Guest
from crashsim.machines.tree import Tree
from crashsim.oracles.outcomes import look_in, outcome
from crashsim.oracles.protocol import Moment, Property, Violation
from crashsim.workloads.litmus import BEGIN, DONE
from crashsim.workloads.litmus_interpreter import BLOCK_BYTES, DIRECTORY
from crashsim.workloads.litmus_tests import Litmus

STAGES: Mapping[str, Property] = {BEGIN: Property.ATOMIC, DONE: Property.DURABLE}
"""First word of the last mark -> what an observation's property is."""


@dataclass
class LitmusObserver:
    """Tells the outcome of the run that is under way."""

    tests: Mapping[str, Litmus]
    properties: Sequence[Property] = field(default=(Property.ATOMIC, Property.DURABLE))

    def judge(self, tree: Tree, moment: Moment) -> list[Violation]:
        """One observation, or none between two runs."""
        word, _, run = (moment.promises[-1] if moment.promises else "").partition(" ")
        if word not in STAGES:
            return []
        test = self.tests[run.partition(" ")[0]]
        seen = outcome(test.files, look_in(tree, DIRECTORY, BLOCK_BYTES))
        return [Violation(STAGES[word], seen, run, f"{run}: {seen}")]

    def exercise_key(self, tree: Tree, moment: Moment) -> object | None:
        """Nothing is tried out in the guest."""
        return None

    def exercise(self, guest: Guest, root: str, tree: Tree, moment: Moment) -> list[Violation]:
        """Nothing is tried out in the guest."""
        return []

    def second_opinion(self, guest: Guest, root: str) -> Mapping[str, str]:
        """None."""
        return {}

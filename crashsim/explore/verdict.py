"""What is known about one crash state, and how it came to be known."""

from dataclasses import dataclass, field
from enum import StrEnum

from crashsim.machines.tree import Tree
from crashsim.oracles.protocol import Violation


class DecidedBy(StrEnum):
    """How a state was decided: by a real recovery and check, or by one of the prunings."""

    CHECK = "check"
    SAME_IMAGE = "same_image"
    SAME_READS = "same_reads"
    SAME_TREE = "same_tree"


PRUNINGS = frozenset(DecidedBy) - {DecidedBy.CHECK}
"""All prunings; pass a smaller set to switch some off."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An oracle's answer for one state.

    :ivar violations: what does not hold; empty where everything does.
    :ivar inconclusive: why there is no answer; empty where there is one. `violations` then
        holds what was found before the check broke down.
    """

    violations: tuple[Violation, ...]
    decided_by: DecidedBy = DecidedBy.CHECK
    inconclusive: str = ""

    @property
    def clean(self) -> bool:
        """Whether it is known that everything holds."""
        return not self.violations and not self.inconclusive


@dataclass(eq=False)
class Outcome:
    """What recovery made of a disk image, and what was concluded from it so far.

    :ivar tree: the recovered tree; None where there is none.
    :ivar failure: what broke when there is no tree.
    :ivar verdicts: number of promises before the cut -> the verdict of the check.
    """

    tree: Tree | None
    failure: Violation | None = None
    verdicts: dict[int, Verdict] = field(default_factory=dict)

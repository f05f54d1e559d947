"""Properties, violations, and what an oracle is."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from crashsim.machines.protocol import CommandResult, Guest
from crashsim.machines.tree import Tree


class Property(StrEnum):
    """What must hold after recovery (DESIGN 4.4), in the order in which reports show them."""

    RECOVERABLE = "recoverable"
    INTACT = "intact"
    DURABLE = "durable"
    ATOMIC = "atomic"
    USABLE = "usable"


class Blame(StrEnum):
    """Which layer broke a property."""

    APPLICATION = "application"
    FILESYSTEM = "filesystem"
    DEVICE = "device"
    HARNESS = "harness"


@dataclass(frozen=True, slots=True)
class Violation:
    """One way in which one recovered tree breaks one property.

    :ivar rule: a stable, short name of the rule that caught it (`ref-object-empty`): findings
        with equal (property, rule) are of one kind, and shrinking keeps both.
    :ivar subject: the path (relative to the filesystem's root) or the ref that is broken.
    :ivar detail: one sentence for people.
    """

    property: Property
    rule: str
    subject: str
    detail: str
    blame: Blame = Blame.APPLICATION


@dataclass(frozen=True, slots=True)
class Moment:
    """When the power was cut, as far as an oracle may know it.

    :ivar promises: texts of the marks made before the cut, oldest first.
    """

    promises: tuple[str, ...]


class Inconclusive(Exception):
    """A check neither passed nor failed: it hung, crashed, or answered something else than 0 or 1.

    Never counted as clean: the run ends with exit code 3.
    """


class Oracle(Protocol):
    """The code that checks the properties of one kind of workload.

    `judge` must be a pure function of (tree, moment): the prunings rely on it.
    """

    properties: Sequence[Property]
    """What it checks."""

    def judge(self, tree: Tree, moment: Moment) -> list[Violation]:
        """Decide from the collected tree, in this process."""

    def exercise_key(self, tree: Tree, moment: Moment) -> object | None:
        """What the result of `exercise` depends on (hashable); None: nothing to do in the guest."""

    def exercise(self, guest: Guest, root: str, tree: Tree, moment: Moment) -> list[Violation]:
        """Decide with real programs in the guest, on the mounted recovered filesystem.

        May change the filesystem (it is thrown away). Raises Inconclusive.
        """

    def second_opinion(self, guest: Guest, root: str) -> Mapping[str, str]:
        """What other programs say of the mounted filesystem: name -> text, for people to read.

        Changes nothing and decides nothing.
        """


__all__ = ["Blame", "CommandResult", "Inconclusive", "Moment", "Oracle", "Property", "Violation"]

"""What the next life finds of the one before: what was lost, and what has to be tidied up."""

from dataclasses import dataclass, field

from crashsim.campaigns.lives import Life
from crashsim.campaigns.results import LogResult
from crashsim.disk.log import Log
from crashsim.disk.request import Operation
from crashsim.machines.tree import Tree
from crashsim.oracles.git.holding import promises_held
from crashsim.oracles.git.tidying import Tidying, tidying
from crashsim.oracles.protocol import Inconclusive, Property, Violation
from crashsim.workloads.git import GIT_DIRECTORY
from crashsim.workloads.marks import promises
from crashsim.workloads.protocol import WorkloadFailed

CANNOT_GO_ON = "step-failed"
"""The rule for a repository that is whole and cannot be used; its bundle replays the crash only."""


@dataclass
class Inspection:
    """What a life's successor found of it, filled in while it recovers.

    :ivar violations: None until there is a verdict.
    """

    violations: tuple[Violation, ...] | None = None
    held: int = 0
    tidied: Tidying = field(default_factory=Tidying)
    repository_bytes: int = 0
    inconclusive: str = ""


def cannot_go_on(failure: WorkloadFailed) -> Violation:
    """A step of the next life failed, with a repository that is whole."""
    return Violation(
        Property.USABLE,
        CANNOT_GO_ON,
        GIT_DIRECTORY,
        f"the repository is whole after recovery, and the next life cannot go on: {failure}",
    )


def inspect(life: Life, tree: Tree, inspection: Inspection) -> None:
    """Judge what is left of a life, and see what has to be tidied up."""
    texts = life.recorded.timeline.promises
    inspection.repository_bytes = sum(node.size_bytes for _, node in tree.below(GIT_DIRECTORY))
    inspection.violations = ()
    try:
        inspection.violations = tuple(life.recorded.oracle.judge(tree, life.moment))
        made = len(life.moment.promises)
        inspection.held = made
        if inspection.violations:
            inspection.held = promises_held(tree, GIT_DIRECTORY, texts, made)
        inspection.tidied = tidying(tree, GIT_DIRECTORY, mend=True)
    except Inconclusive as reason:
        inspection.inconclusive = str(reason)


def sent_before(log: Log, cut: int) -> LogResult:
    """What the guest had sent to its disk when the power was cut, and what it had promised."""
    count = log.submitted_before(cut)
    operation = log.requests.operation[:count]
    lengths = log.requests.length_bytes[:count]
    return LogResult(
        writes=int((operation != Operation.FLUSH).sum()),
        flushes=int((operation == Operation.FLUSH).sum()),
        bytes=int(lengths[operation == Operation.WRITE].sum()),
        marks=len(promises(mark.text for mark in log.marks_before(cut))),
    )

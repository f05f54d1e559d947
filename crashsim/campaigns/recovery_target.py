"""A recovery as the target of a recording: what runs, what it owes, and what it may come to.

It owes what the first life had promised when the power was cut: its marks come first in the new
log. What the step that was under way then might have come to stays legal, so does what the disk
really held; when the recovery's own step has returned, what it left is a promise, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from crashsim.campaigns.explaining import Snapshots
from crashsim.campaigns.lives import tidy_up
from crashsim.campaigns.recorded import Recorded
from crashsim.campaigns.targets import Target
from crashsim.disk.state import CrashState
from crashsim.errors import InfrastructureError, UsageError
from crashsim.explain.files import PREPARED, Snapshot
from crashsim.machines.filesystems import Filesystem, on_one_disk
from crashsim.machines.protocol import Guest, Machine, Recovery
from crashsim.machines.tree import Tree
from crashsim.oracles.git import encode_promise, snapshot
from crashsim.oracles.git.snapshot import GitPromise, GitSnapshot, decode_promise
from crashsim.oracles.git.tidying import tidying
from crashsim.oracles.protocol import Inconclusive, Moment
from crashsim.workloads.command import CommandWorkload
from crashsim.workloads.git import GIT_DIRECTORY, GitWorkload
from crashsim.workloads.origin import Origin
from crashsim.workloads.recovery import command_recovery, git_recovery


class NotRecovered(InfrastructureError):
    """Not for users: a state that held everything came to something else this time."""


def check_can_nest(filesystem: Filesystem, machine: Machine) -> None:
    """Raise UsageError where a recovery cannot be recorded."""
    on_one_disk(filesystem, "a recovery that is cut")
    if machine.info.records:
        raise UsageError(
            f"--machine {machine.info.kind} records with the guest's own kernel: it goes without "
            "--depth 2"
        )


def recovery_target(target: Target) -> Target:
    """What is recorded of a target after a power cut: its recovery in place of its steps."""
    workload = target.workload
    if isinstance(workload, GitWorkload):
        return replace(target, workload=git_recovery(workload), promise=None)
    assert isinstance(workload, CommandWorkload)
    return replace(target, workload=command_recovery(workload, target.recover), promise=None)


@dataclass
class FirstCut:
    """A crash state of the first life that is recovered again.

    :ivar recorded: the first life's recording.
    :ivar snapshots: takes the trees of git's recovery: what the mount came to, what gc left.
    """

    recorded: Recorded
    state: CrashState
    snapshots: Snapshots = field(default_factory=Snapshots)

    @property
    def promises(self) -> Sequence[str]:
        """Those in force."""
        timeline = self.recorded.timeline
        return timeline.promises[: timeline.promise_count(self.state.cut)]

    def origin(self, target: Target) -> Origin:
        """How the recording goes on with this state's image.

        Its `recovered` raises NotRecovered.
        """
        workload = target.workload

        def recovered(guest: Guest, recovery: Recovery) -> None:
            tree = self._checked(recovery)
            if isinstance(workload, GitWorkload):
                self.snapshots.taken.append(Snapshot(PREPARED, tree))
                tidy_up(guest, tidying(tree, GIT_DIRECTORY, mend=True))
                workload.stage(guest)

        return Origin(self.promises, recovered, explored=True)

    def target(self, target: Target) -> Target:
        """`target`, a recovery, with what it promises when its step has returned, if it is git's:
        a command makes its promises itself."""
        if not isinstance(target.workload, GitWorkload):
            return target
        others = [each for each in target.oracle["others"] if isinstance(each, str)]

        def promise(name: str, tree: Tree) -> str:
            under_way = self._under_way()
            return encode_promise(
                name,
                snapshot(tree, GIT_DIRECTORY),
                legal_between=self._legal_between(under_way),
                unnoted_between=() if under_way is None else under_way.unnoted_between,
                one_transaction=under_way is not None and under_way.one_transaction,
                others={other: snapshot(tree, other) for other in others},
            )

        return replace(target, promise=promise)

    def _checked(self, recovery: Recovery) -> Tree:
        """The tree, which must hold everything: it did when the state was explored."""
        if recovery.tree is None:
            raise NotRecovered(f"it does not mount any more ({recovery.mount_error})")
        try:
            violations = self.recorded.oracle.judge(recovery.tree, Moment(tuple(self.promises)))
        except Inconclusive as reason:
            raise NotRecovered(f"what it came to cannot be judged: {reason}") from reason
        if violations:
            raise NotRecovered(f"it does not hold any more: {violations[0].detail}")
        return recovery.tree

    def _under_way(self) -> GitPromise | None:
        """The promise of the step that the first cut fell into; None after the last one.

        Before the first promise nothing is held to any history.
        """
        timeline = self.recorded.timeline
        following = timeline.promises[len(self.promises) :][:1]
        return decode_promise(following[0]) if following and self.promises else None

    def _legal_between(self, under_way: GitPromise | None) -> list[GitSnapshot]:
        """What the repository may hold before the recovery's step is over."""
        between = [] if under_way is None else [*under_way.legal_between, under_way.state]
        held = snapshot(self.snapshots.taken[0].tree, GIT_DIRECTORY)
        return between if held in between else [*between, held]

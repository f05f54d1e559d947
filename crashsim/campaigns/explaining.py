"""Gathers what explanations need: the trees after each step, a survey of the log, a trace."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from crashsim.campaigns.options import RunOptions
from crashsim.campaigns.recorded import SLOT, Recorded
from crashsim.campaigns.targets import Target
from crashsim.disk.state import CrashState
from crashsim.explain.boundaries import boundary_snapshots
from crashsim.explain.explain import Background, Case, Explanation, explain
from crashsim.explain.files import Snapshot
from crashsim.explain.lineage import Trace
from crashsim.explain.survey import survey
from crashsim.explain.tracing import trace_workload
from crashsim.explore.needed import Telling
from crashsim.explore.recovery import Recoverer
from crashsim.machines.protocol import Machine
from crashsim.machines.tree import Tree
from crashsim.oracles.protocol import Oracle, Violation
from crashsim.workloads.git import GitWorkload
from crashsim.workloads.session import RECOVERY


@dataclass
class Snapshots:
    """Keeps the tree after each step, as the recorder shows it: writes are joined to them."""

    taken: list[Snapshot] = field(default_factory=list)

    def keeping(self, promise: Callable[[str, Tree], str]) -> Callable[[str, Tree], str]:
        """`promise`, with each tree that it is asked about kept."""

        def keep(step: str, tree: Tree) -> str:
            self.taken.append(Snapshot(step, tree))
            return promise(step, tree)

        return keep


@dataclass(frozen=True)
class Look:
    """What recovery makes of a crash state.

    :ivar tree: None where it does not mount.
    :ivar evidence: name -> text: what the kernel and other programs say of it.
    """

    tree: Tree | None
    evidence: Mapping[str, str]


@dataclass
class Explainer:
    """Explains the findings of one recording; what all of them share is made for the first one.

    :ivar traced: run the workload once more for its system calls.
    """

    recorded: Recorded
    target: Target
    options: RunOptions
    machine: Machine
    snapshots: Snapshots
    traced: bool = True
    _background: Background | None = None

    def explain(self, telling: Telling, violation: Violation, look: Look) -> Explanation:
        """A finding in words. Raises InfrastructureError where guests fail.

        :param look: at the state that `telling` came to.
        """
        if self._background is None:
            self._background = self._gather()
        return explain(Case(telling.state, violation, telling.needed, look.tree), self._background)

    def _gather(self) -> Background:
        return Background(
            survey=survey(self.recorded.images, self.recorded.filesystem.fstype, self._snapshots()),
            trace=self._trace(),
            disturbances=self.options.disturbances,
            git_directories=self._git_directories(),
        )

    def _trace(self) -> Trace | None:
        if not self.traced:
            return None
        return trace_workload(self.machine, self.target.workload, self.recorded.filesystem)

    def _snapshots(self) -> Sequence[Snapshot]:
        """What the recorder kept; else what the disk holds at the workload's start and end."""
        if self.snapshots.taken:
            return self.snapshots.taken
        steps = self.target.workload.steps
        with self.machine.start() as guest:
            return boundary_snapshots(
                guest,
                self.recorded.images,
                self.recorded.filesystem.mount(SLOT),
                steps[-1].name if steps else RECOVERY,
            )

    def _git_directories(self) -> Sequence[str]:
        workload = self.target.workload
        return workload.git_directories if isinstance(workload, GitWorkload) else ()


def look_at(recoverer: Recoverer, oracle: Oracle, state: CrashState) -> Look:
    """Recover a state once more. Raises GuestLost."""
    with recoverer.recover(state) as attempt:
        recovery = attempt.recovery
        evidence = {"kernel-log": recovery.kernel_log} if recovery.kernel_log else {}
        if recovery.tree is not None:
            evidence |= attempt.second_opinion(oracle)
        return Look(recovery.tree, evidence)

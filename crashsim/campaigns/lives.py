"""One life of a repository: planned, lived, cut; and what the next one finds of it."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from crashsim.campaigns.cut_at import (
    RECOVERY_SHARE,
    CutAt,
    Where,
    cut_position,
    requests_reached,
    survivor_state,
)
from crashsim.campaigns.explaining import Snapshots
from crashsim.campaigns.options import RunOptions
from crashsim.campaigns.prepared_machine import PreparedMachine
from crashsim.campaigns.recorded import Recorded
from crashsim.campaigns.recording import open_target
from crashsim.campaigns.targets import Target, git_oracle, git_promise
from crashsim.disk.log import Log
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.state import CrashState
from crashsim.faults.disturbances import Disturbance, make
from crashsim.machines.protocol import Guest, Machine
from crashsim.machines.qemu import GUEST_TIME_SECONDS
from crashsim.machines.tree import Tree
from crashsim.oracles.git import GitOracle, encode_promise, snapshot
from crashsim.oracles.git.snapshot import DamagedBeforeCrash
from crashsim.oracles.git.tidying import Tidying
from crashsim.oracles.protocol import Inconclusive, Moment
from crashsim.workloads.git import GIT_DIRECTORY, GitWorkload
from crashsim.workloads.guest_scripts import run_in
from crashsim.workloads.lives import kinds_of, life_steps, life_workload
from crashsim.workloads.session import PREPARED, ROOT

LIFE_SECONDS = 3600
"""How far the clock of the machine is from one life to the next: no file is from the future."""


@dataclass(frozen=True, slots=True)
class LivePlan:
    """What all lives have in common.

    :ivar workload: says which program runs, and how it is configured.
    """

    workload: GitWorkload
    target: Target
    sequence: str
    cut_at: CutAt
    seed: int


@dataclass(frozen=True)
class Life:
    """A life that is over, and its recording, which stays open until the next one has begun.

    :ivar state: what the power cut left.
    :ivar fresh: it began with a new repository.
    :ivar seconds: how long it took, the recovery at its beginning included.
    """

    number: int
    directory: Path
    target: Target
    recorded: Recorded
    state: CrashState
    snapshots: Snapshots
    fresh: bool
    seconds: float
    _open: ExitStack = field(repr=False)

    @property
    def moment(self) -> Moment:
        """What had been promised when the power was cut."""
        timeline = self.recorded.timeline
        return Moment(tuple(timeline.promises[: timeline.promise_count(self.state.cut)]))

    @property
    def is_recovery(self) -> bool:
        """Whether it was cut before it had come to a step."""
        return not self.target.workload.steps

    def close(self) -> None:
        """Close the recording."""
        self._open.close()


def later_machine(machine: Machine, number: int) -> Machine:
    """`machine`, with the clock of every guest set to the time of a life."""
    seconds = GUEST_TIME_SECONDS + number * LIFE_SECONDS
    return PreparedMachine(machine, lambda guest: run_in(guest, 'date -s "@$1"', str(seconds)))


def plan_life(plan: LivePlan, number: int, *, fresh: bool) -> Target:
    """The target of one life: as many steps as the life is going to take at most.

    :param fresh: there is nothing to recover from, so there is a step at least.
    """
    chooser = Random(f"live-plan:{plan.seed}:{number}")
    ends_with = plan.cut_at.name if plan.cut_at.where is Where.MARK else ""
    kinds = kinds_of(plan.sequence, plan.seed, number, ends_with)
    if plan.cut_at.where is Where.MOMENT:
        in_recovery = chooser.random() < RECOVERY_SHARE and not fresh
        kinds = () if in_recovery else kinds[: chooser.randint(1, len(kinds))]
    steps = life_steps(kinds, plan.seed, number)
    workload = life_workload(plan.workload, plan.sequence, steps, plan.seed, number)
    return replace(
        plan.target,
        workload=replace(workload, git_directories=(GIT_DIRECTORY,)),
        oracle=git_oracle([]),
        promise=git_promise(steps, []),
    )


def life_disturbances(
    given: Sequence[Disturbance], plan: LivePlan, number: int
) -> tuple[Disturbance, ...]:
    """The same kinds for each life, at other moments."""
    return make([each.kind for each in given], Random(f"{plan.seed}:{number}").getrandbits(32))


def has_lived_enough(plan: LivePlan, writer: LogWriter) -> bool:
    """Whether the counted request has arrived."""
    if plan.cut_at.where not in (Where.WRITE, Where.FLUSH):
        return False
    with Log.open(writer.directory) as log:
        return requests_reached(log, plan.cut_at) is not None


def cut_life(
    plan: LivePlan,
    options: RunOptions,
    number: int,
    target: Target,
    directory: Path,
    snapshots: Snapshots,
    *,
    fresh: bool,
    lossy: bool,
    seconds: float,
) -> Life:
    """Cut the power somewhere in a life that has been recorded.

    :param lossy: the life before it lost something: then it is not cut while that is recovered, or
        the same loss would be found twice.
    """
    chooser = Random(f"live-cut:{plan.seed}:{number}")
    with ExitStack() as stack:
        recorded = stack.enter_context(open_target(target, options, directory))
        cut = cut_position(
            recorded.log, recorded.timeline, plan.cut_at, chooser, after_recovery=lossy
        )
        unit = options.profile.atomic_unit_bytes
        state = survivor_state(recorded.timeline, cut, unit, chooser)
        recorded.images.check_legal(state)
        return Life(
            number, directory, target, recorded, state, snapshots, fresh, seconds, stack.pop_all()
        )


def is_whole(tree: Tree) -> bool:
    """Whether work can go on with the repository: nothing in it is broken."""
    try:
        promise = encode_promise(PREPARED, snapshot(tree, GIT_DIRECTORY))
        return not GitOracle([promise], GIT_DIRECTORY).judge(tree, Moment((promise,)))
    except (DamagedBeforeCrash, Inconclusive):
        return False


def tidy_up(guest: Guest, tidying: Tidying) -> None:
    """Do what the policy says, in the guest. Raises GuestCommandFailed."""
    if tidying.removed:
        run_in(guest, 'rm -f -- "$@"', *(f"{ROOT}/{path}" for path in tidying.removed))
    for path, content in tidying.rewritten.items():
        guest.write_file(f"{ROOT}/{path}", content)

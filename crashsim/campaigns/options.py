"""What a run is asked to do."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from crashsim.disk.profile import DEFAULT_PROFILE, DeviceProfile
from crashsim.faults.disturbances import Disturbance
from crashsim.machines.filesystems import Filesystem
from crashsim.oracles.protocol import Property
from crashsim.workloads.trouble import Fault

Progress = Callable[[str, int, int], None]
"""Called as progress(what is going on, done, total); a total of 0 means that it is not known."""


def no_progress(_phase: str, _done: int, _total: int) -> None:
    """Show nothing."""


@dataclass(frozen=True, slots=True)
class NestedOptions:
    """How far to go with power cuts while power cuts are recovered from.

    :ivar states: how many nested crash states to explore, over all recoveries; None: of each
        recovery every bounded strategy to its end.
    :ivar recoveries: how many recoveries to record at most.
    """

    states: int | None = 200
    recoveries: int = 8


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How to record and explore one workload.

    :ivar states: how many crash states to explore; None for every bounded strategy to its end.
    :ivar time_limit_seconds: stop exploring then; what was covered is reported.
    :ivar jobs: guests that recover crash states side by side.
    :ivar prune: False decides every state by a real recovery.
    :ivar shrink: False leaves findings as they were met.
    :ivar explain: False leaves out the explanations, which take one more run of the workload.
    :ivar shrink_seconds: what shrinking all findings of a run may take together.
    :ivar measure_cost: record once more without disturbances, to count the workload's own flushes.
    :ivar fault: what fails while the workload runs.
    :ivar nested: cut recoveries, too.
    :ivar out: directory for recordings and bundles; made when missing.
    """

    filesystem: Filesystem
    out: Path
    disturbances: tuple[Disturbance, ...] = ()
    profile: DeviceProfile = DEFAULT_PROFILE
    properties: tuple[Property, ...] = tuple(Property)
    machine: str = "auto"
    kernel: Path | None = None
    states: int | None = 300
    time_limit_seconds: float | None = None
    seed: int = 0
    jobs: int = 2
    prune: bool = True
    shrink: bool = True
    explain: bool = True
    shrink_seconds: float = 60.0
    measure_cost: bool = True
    fault: Fault | None = None
    nested: NestedOptions | None = None

    def bare(self, out: Path) -> "RunOptions":
        """The same run below `out`, for its counts and kinds alone: findings stay as met."""
        return replace(self, out=out, shrink=False, explain=False, measure_cost=False)

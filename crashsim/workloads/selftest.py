"""The workload of `crashsim selftest`: programs with and without a mistake, side by side.

What runs in the guest is `selftest_programs`, sent there as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources

from crashsim.machines.protocol import Guest
from crashsim.workloads.protocol import Step, WorkloadFailed
from crashsim.workloads.staging import put_files

_STAGE = "/selftest"
_SCRIPT = "selftest_programs.py"
_SECONDS_MAX = 240.0


@dataclass(frozen=True)
class SelftestWorkload:
    """Some programs of `selftest_programs`, one after the other: the careless twin, the careful.

    :ivar programs: names in `selftest_programs.PROGRAMS`.
    """

    programs: tuple[str, ...]
    name: str = "selftest"
    environment: Mapping[str, str] = field(default_factory=dict)
    collect: Sequence[str] = ("",)

    @property
    def steps(self) -> Sequence[Step]:
        """One: to start an interpreter for each program would take most of the time."""
        return (Step("programs", self._command("run"), timeout_seconds=_SECONDS_MAX),)

    def prepare(self, guest: Guest, root: str) -> None:
        """Make what the programs find when they begin."""
        script = resources.files("crashsim.workloads").joinpath(_SCRIPT).read_bytes()
        put_files(guest, _STAGE, {_SCRIPT: script})
        result = guest.run(self._command("prepare"), cwd=root, timeout_seconds=_SECONDS_MAX)
        if result.returncode != 0:
            raise WorkloadFailed(self.name, "the set-up", result)

    def describe(self) -> Mapping[str, object]:
        """The programs' names."""
        return {"programs": list(self.programs)}

    def _command(self, what: str) -> tuple[str, ...]:
        return ("python3", f"{_STAGE}/{_SCRIPT}", what, *self.programs)

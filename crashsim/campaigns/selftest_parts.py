"""What `crashsim selftest` tries: which programs, on what, and what must come of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from crashsim.disk.state import CrashState
from crashsim.faults.disturbances import Kind
from crashsim.oracles.selftest import run_name
from crashsim.workloads.selftest_programs import CAREFUL, CARELESS


class Crash(Enum):
    """What a crash state takes, the simplest first."""

    CUT = "a cut"
    LOST = "a lost write"
    TORN = "a torn write"

    @classmethod
    def of(cls, state: CrashState) -> "Crash":
        """The kind of a state."""
        if state.torn:
            return cls.TORN
        return cls.LOST if state.dropped else cls.CUT

    @property
    def rank(self) -> int:
        """How much it takes."""
        return list(Crash).index(self)


TAKES: Mapping[str, Crash] = {
    "early-promise": Crash.LOST,
    "write-out-only": Crash.LOST,
    "unordered": Crash.LOST,
    "torn": Crash.TORN,
}
"""What it takes at most to catch a program; a cut for all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Programs that share a recording.

    :ivar fs: as `parse_filesystem` takes it.
    :ivar states: how many crash states are explored.
    :ivar disturbances: what happens meanwhile.
    :ivar harmless: programs whose mistake is none on this filesystem: both twins must be clean.
    """

    name: str
    programs: tuple[str, ...]
    states: int
    fs: str = "ext4"
    device: str = "default"
    disturbances: tuple[Kind, ...] = ()
    harmless: frozenset[str] = frozenset()

    @property
    def expected(self) -> Mapping[str, bool]:
        """Run -> whether it must be caught; else it must be clean in every state."""
        return {
            run_name(program, twin): twin == CARELESS and program not in self.harmless
            for program in self.programs
            for twin in (CARELESS, CAREFUL)
        }


PARTS = (
    Part(
        name="promises",
        programs=(
            "no-fsync",
            "wrong-file",
            "early-promise",
            "buffered",
            "trusted",
            "unsynced-directory",
            "batch",
        ),
        states=300,
        harmless=frozenset({"batch"}),  # ext4's fsync commits a journal that is everybody's
    ),
    Part(
        name="disturbed",
        programs=("late-fsync", "truncated", "early-unlink"),
        states=320,
        disturbances=(Kind.FSYNC,),
    ),
    # Few writes, so that every one of them is dropped and torn.
    Part(name="overwrites", programs=("write-out-only", "unordered", "torn"), states=220),
    # At 512 bytes a torn btrfs superblock does not mount: see docs/findings.md.
    Part(name="per-file log", programs=("batch",), states=60, fs="btrfs", device="4kn"),
)
"""All of them. What only reordering, tearing or other processes can show has a part of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCase:
    """A `--check` command with a known answer.

    :ivar expected: `violation`, `clean` or `inconclusive`.
    """

    name: str
    check: str
    expected: str
    timeout_seconds: float = 20.0


def _check_of(twin: str) -> str:
    return (
        "while read -r word program which; do "
        f'test "$word" != saved || test "$which" != {twin} || '
        'test -s "$program.$which/value" || exit 1; done <"$CRASHSIM_PROMISES"'
    )


CHECKED_PART = Part(name="checks", programs=("no-fsync",), states=6)
CHECK_CASES = (
    CheckCase(name="a check that exits 1", check=_check_of(CARELESS), expected="violation"),
    CheckCase(name="a check that exits 0", check=_check_of(CAREFUL), expected="clean"),
    CheckCase(name="a check that crashes", check="exit 7", expected="inconclusive"),
    CheckCase(
        name="a check that hangs",
        check="sleep 1000",
        expected="inconclusive",
        timeout_seconds=1.0,
    ),
)
"""Each is run on the crash states of `CHECKED_PART`."""

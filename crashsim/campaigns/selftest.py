"""`crashsim selftest` as a function: are known-bad programs caught and known-good ones clean?

It goes the way of every run (record, explore, judge) with programs whose verdicts are known. A
harness that misses a mistake, or sees one where there is none, says so about itself.
"""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from crashsim.campaigns.options import Progress, no_progress
from crashsim.campaigns.results import MachineResult
from crashsim.campaigns.selftest_parts import (
    CHECK_CASES,
    CHECKED_PART,
    PARTS,
    TAKES,
    CheckCase,
    Crash,
    Part,
)
from crashsim.campaigns.selftest_result import HarnessOutcome, RunOutcome, SelftestResult
from crashsim.disk.image import ImageIndex
from crashsim.disk.profile import DeviceProfile, parse_profile
from crashsim.disk.recording import Recording
from crashsim.disk.state import CrashState
from crashsim.errors import InfrastructureError
from crashsim.explore.deciding import Decider
from crashsim.explore.engine import LocalEngine
from crashsim.explore.exploration import Exploration, simplicity
from crashsim.explore.exploring import Budget, explore
from crashsim.explore.guests import GuestRecoverer
from crashsim.explore.timeline import Timeline
from crashsim.explore.verdict import PRUNINGS, DecidedBy
from crashsim.faults.disturbances import EXCLUDE, make
from crashsim.machines.filesystems import Filesystem, parse_filesystem
from crashsim.machines.protocol import Machine
from crashsim.oracles.command import CommandOracle
from crashsim.oracles.protocol import Oracle, Violation
from crashsim.oracles.selftest import SelftestOracle
from crashsim.workloads.protocol import WorkloadFailed
from crashsim.workloads.record import record
from crashsim.workloads.selftest import SelftestWorkload

AGREEMENT_STATES = 12
"""How many states of each part are decided once more without any pruning."""

SLOT = 0


class ProgramsFailed(InfrastructureError):
    """The programs of the selftest, which work everywhere, did not: nothing is known then."""


@dataclass(frozen=True)
class PartOutcome:
    """What one part gave."""

    programs: list[RunOutcome]
    harness: list[HarnessOutcome]
    inconclusive: int


def run_selftest(
    machine: Machine,
    directory: Path,
    *,
    seed: int = 0,
    jobs: int = 2,
    progress: Progress = no_progress,
) -> SelftestResult:
    """Record and explore everything, `jobs` parts side by side with one guest each.

    :param directory: for the recordings, one directory a part, none of them there yet.

    Raises InfrastructureError when the machinery fails: nothing is known then.
    """
    started = time.perf_counter()
    parts = (*PARTS, CHECKED_PART)
    progress("selftest", 0, len(parts))

    def whole(part: Part) -> PartOutcome:
        record_part(machine, part, directory, seed)
        return explore_part(machine, part, directory, seed)

    with ThreadPoolExecutor(jobs, thread_name_prefix="selftest") as pool:
        futures = [pool.submit(whole, part) for part in parts]
        try:
            for done, finished in enumerate(as_completed(futures), 1):
                finished.result()
                progress("selftest", done, len(parts))
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
    outcomes = [future.result() for future in futures]
    return summary(machine, outcomes, seed, time.perf_counter() - started)


def summary(
    machine: Machine, outcomes: Sequence[PartOutcome], seed: int, seconds: float
) -> SelftestResult:
    """The parts' outcomes as one result."""
    programs = [each for outcome in outcomes for each in outcome.programs]
    harness = [each for outcome in outcomes for each in outcome.harness]
    return SelftestResult(
        machine=MachineResult.of(machine.info),
        seed=seed,
        passed=all([each.passed for each in programs] + [each.passed for each in harness]),
        programs=programs,
        harness=harness,
        inconclusive=sum(outcome.inconclusive for outcome in outcomes),
        seconds=seconds,
    )


def record_part(machine: Machine, part: Part, directory: Path, seed: int) -> None:
    """Record a part's programs, into a directory of its name.

    Raises ProgramsFailed, and what `record` raises.
    """
    try:
        record(
            machine,
            SelftestWorkload(part.programs),
            parse_filesystem(part.fs),
            directory / part.name,
            disturbances=make(part.disturbances, seed),
            seed=seed,
        )
    except WorkloadFailed as error:
        raise ProgramsFailed(
            f"the selftest's own programs do not run in this guest: {error}"
        ) from error


def explore_part(machine: Machine, part: Part, directory: Path, seed: int) -> PartOutcome:
    """Explore a part's recording and compare what is found with what must be."""
    with _open(part, directory) as opened:
        if part is CHECKED_PART:
            checks = [_check(machine, opened, case, seed) for case in CHECK_CASES]
            return PartOutcome([], checks, 0)
        oracle = SelftestOracle(part.programs)
        exploration = opened.explore(machine, oracle, PRUNINGS, part.states, seed)
        agreement, undecided = _agreement(machine, opened, oracle, part, exploration)
    inconclusive = len(exploration.inconclusive) + undecided
    return PartOutcome(judge_programs(part, exploration), [agreement], inconclusive)


@dataclass(frozen=True)
class _Opened:
    """A part's recording, ready to be explored."""

    images: ImageIndex
    timeline: Timeline
    filesystem: Filesystem
    profile: DeviceProfile

    def explore(
        self,
        machine: Machine,
        oracle: Oracle,
        prunings: frozenset[DecidedBy],
        states: int,
        seed: int,
    ) -> Exploration:
        decider = Decider(self.images, self.timeline, oracle, prunings)
        return explore(
            decider,
            self.engine(machine, decider),
            Budget(states=states, seed=seed),
            self.profile.atomic_unit_bytes,
        )

    def engine(self, machine: Machine, decider: Decider) -> LocalEngine:
        mount = self.filesystem.mount(SLOT)
        return LocalEngine(
            decider, lambda: GuestRecoverer(machine, self.images, mount, exclude=EXCLUDE)
        )


@contextmanager
def _open(part: Part, directory: Path) -> Iterator[_Opened]:
    recording = Recording.open(directory / part.name)
    profile = parse_profile(part.device)
    with recording.log() as log:
        yield _Opened(
            ImageIndex(log, profile), Timeline.of(log, profile), parse_filesystem(part.fs), profile
        )


def judge_programs(part: Part, exploration: Exploration) -> list[RunOutcome]:
    """Whether each careless twin was caught and each careful one was not.

    One that a plain cut or a lost write has to show is missed where only a torn write did: tearing
    covers for dropping that does not work. What no program can have done (a filesystem that does
    not mount, say) is an outcome, too.
    """
    seen: dict[str, list[tuple[CrashState, Violation]]] = {name: [] for name in part.expected}
    for state, violations in exploration.verdicts.items():
        for violation in violations:
            seen.setdefault(violation.rule, []).append((state, violation))
    return [
        _run_outcome(name, part, found, len(exploration.verdicts)) for name, found in seen.items()
    ]


def _run_outcome(
    name: str, part: Part, found: Sequence[tuple[CrashState, Violation]], states: int
) -> RunOutcome:
    program, _, twin = name.partition(" ")
    caught = part.expected.get(name, False)
    state, violation = min(found, key=lambda each: simplicity(each[0]), default=(None, None))
    takes = TAKES.get(program, Crash.CUT)
    return RunOutcome(
        program=program,
        twin=twin,
        fs=part.fs,
        expected="caught" if caught else "clean",
        states=states,
        broken=len(found),
        simplest="" if state is None else Crash.of(state).value,
        detail="" if violation is None else violation.detail,
        passed=(state is not None and Crash.of(state).rank <= takes.rank) if caught else not found,
    )


def _agreement(
    machine: Machine, opened: _Opened, oracle: Oracle, part: Part, exploration: Exploration
) -> tuple[HarnessOutcome, int]:
    """Decide some states once more, each by a recovery of its own: the verdicts must be equal.

    Returns the outcome and how many of the recoveries gave no answer.
    """
    every = max(1, len(exploration.verdicts) // AGREEMENT_STATES)
    sample = list(islice(exploration.verdicts, 0, None, every))[:AGREEMENT_STATES]
    decider = Decider(opened.images, opened.timeline, oracle, frozenset())
    equal = undecided = 0
    for _, state, verdict in opened.engine(machine, decider).decide_all(sample, None):
        equal += set(verdict.violations) == set(exploration.verdicts[state])
        undecided += bool(verdict.inconclusive)
    outcome = HarnessOutcome(
        name=f"prunings on {part.fs}, {part.name}",
        expected="change no verdict",
        found=f"{equal} of {len(sample)} equal to a recovery of its own",
        passed=equal == len(sample) > 0,
    )
    return outcome, undecided


def _check(machine: Machine, opened: _Opened, case: CheckCase, seed: int) -> HarnessOutcome:
    """Explore with a `--check` command whose answer is known."""
    oracle = CommandOracle(case.check, case.timeout_seconds)
    exploration = opened.explore(machine, oracle, PRUNINGS, CHECKED_PART.states, seed)
    broken = sum(map(bool, exploration.verdicts.values()))
    open_ = len(exploration.inconclusive)
    clean = exploration.explored - broken - open_
    if case.expected == "inconclusive":
        passed = open_ == exploration.explored > 0
    else:
        passed = not open_ and (broken > 0) == (case.expected == "violation")
    return HarnessOutcome(
        name=case.name,
        expected=case.expected,
        found=f"{broken} violations, {clean} clean, {open_} inconclusive",
        passed=passed,
    )

"""Crash during recovery: crash states are recovered on a disk that records, and that is cut, too.

See docs/nested-crashes.md. A state that holds everything becomes the base image of a recording: the
mount, tidying up, the program's own recovery. Its crash states are explored like any other's.
"""

import shutil
import time
from collections import Counter
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

from crashsim.campaigns.explaining import Explainer, Snapshots
from crashsim.campaigns.findings import Case, make_cases, step_under_way
from crashsim.campaigns.lives import later_machine
from crashsim.campaigns.nested_result import (
    NOTHING_EXPLORED,
    NOTHING_SENT,
    RECOVERY_FAILED,
    first_cut_result,
    nested_result,
    states_before,
    states_result,
    told,
)
from crashsim.campaigns.options import NestedOptions, Progress, RunOptions, no_progress
from crashsim.campaigns.recorded import Recorded
from crashsim.campaigns.recording import open_target, record_target
from crashsim.campaigns.recovery_target import FirstCut, NotRecovered, recovery_target
from crashsim.campaigns.results import FirstCut as FirstCutResult
from crashsim.campaigns.results import LogResult, NestedResult, RecoveryResult
from crashsim.campaigns.targets import Target
from crashsim.disk.recording import BASE_NAME
from crashsim.disk.state import CrashState
from crashsim.disk.survivor import write_image
from crashsim.explore.engine import LocalEngine
from crashsim.explore.exploration import (
    Exploration,
    Kind,
    exploration_of,
    kind_of,
    property_counts,
)
from crashsim.explore.exploring import Budget, explore
from crashsim.explore.nesting import Chosen, choose, groups_of, sound_states
from crashsim.explore.verdict import PRUNINGS
from crashsim.machines.protocol import Machine
from crashsim.oracles.protocol import Property, Violation
from crashsim.workloads.figures import figures
from crashsim.workloads.git import GitWorkload
from crashsim.workloads.impl import with_bytecode
from crashsim.workloads.protocol import WorkloadFailed
from crashsim.workloads.recovery import mount_end

NESTED = "nested"
"""The directory of the recordings of recoveries, each removed when it has been explored."""


@dataclass
class Nesting:
    """The recoveries of one run.

    :ivar recorded: the first life.
    :ivar cases: one of each kind of violation, from the first recovery that showed it.
    :ivar shown: kind -> how many nested states show it.
    """

    recorded: Recorded
    exploration: Exploration
    target: Target
    options: RunOptions
    machine: Machine
    directory: Path
    progress: Progress
    each: list[RecoveryResult] = field(default_factory=list)
    cases: dict[Kind, tuple[Case, FirstCutResult]] = field(default_factory=dict)
    shown: Counter[Kind] = field(default_factory=Counter)
    counts: list[dict[Property, tuple[int, int]]] = field(default_factory=list)
    inconclusive: int = 0
    shrink_seconds_left: float = 0.0

    def run(self, nested: NestedOptions) -> tuple[NestedResult, tuple[Case, ...]]:
        """Record recoveries and explore them; what they came to, and a case of each kind.

        Raises UsageError and InfrastructureError as recording and exploring do.
        """
        self.shrink_seconds_left = self.options.shrink_seconds
        states = sound_states(
            self.exploration, self.recorded.timeline, self.recorded.images.identity
        )
        groups = groups_of(states, nested.recoveries, self.options.seed)
        limit = self.options.time_limit_seconds
        deadline = None if limit is None else time.monotonic() + limit
        recovery = self._ready(recovery_target(self.target)) if groups else self.target
        with closing(self._chosen(groups, recovery)) as chosen_states:
            for number, chosen in enumerate(chosen_states, 1):
                left = _seconds_left(deadline)
                if left is not None and left <= 0:
                    break
                self.progress("recoveries", number - 1, len(groups))
                share = self._share(nested, len(groups) - number + 1)
                self._cut_recovery(number, chosen, recovery, share, left)
        self.progress("recoveries", len(groups), len(groups))
        if not self.cases:
            shutil.rmtree(self.directory / NESTED, ignore_errors=True)  # there is nothing in it
        result = nested_result(
            self.each,
            self.counts,
            self.options.properties,
            sound_states=len(states),
            inconclusive=self.inconclusive,
        )
        return result, self._told()

    def _ready(self, recovery: Target) -> Target:
        """With its program compiled, once for all guests."""
        workload = recovery.workload
        if not isinstance(workload, GitWorkload) or not workload.program:
            return recovery
        with self.machine.start() as guest:
            return replace(recovery, workload=with_bytecode(workload, guest))

    def _chosen(
        self, groups: list[list[CrashState]], recovery: Target
    ) -> Generator[Chosen, None, None]:
        """The states to recover again. Where the mount is all, it has to change something."""
        with self.recorded.recoverer(self.machine) as recoverer:

            def probe(state: CrashState) -> int:
                with recoverer.recover(state):
                    return recoverer.disk.pages_changed()

            yield from choose(groups, probe, 0 if recovery.workload.steps else 1)

    def _share(self, nested: NestedOptions, recoveries_left: int) -> int | None:
        """How many states the next recovery gets: what others left over is shared, too."""
        if nested.states is None:
            return None
        explored = sum(one.states.explored for one in self.each)
        return -(-(nested.states - explored) // recoveries_left)

    def _cut_recovery(
        self,
        number: int,
        chosen: Chosen,
        recovery: Target,
        share: int | None,
        seconds: float | None,
    ) -> None:
        """Record one recovery, explore it, note what became of it."""
        first = FirstCut(self.recorded, chosen.state)
        target = first.target(recovery)
        directory = self.directory / NESTED / f"{number:05}"
        directory.mkdir(parents=True)
        try:
            self._record(first, target, directory)
            with open_target(target, self.options, directory) as recorded:
                self._explore(chosen, first, target, recorded, share, seconds)
        except NotRecovered as reason:
            self.inconclusive += 1
            self._note(chosen, first, inconclusive=str(reason))
        except WorkloadFailed as failure:
            self._note_failure(chosen, first, failure)
        shutil.rmtree(directory)

    def _record(self, first: FirstCut, target: Target, directory: Path) -> None:
        write_image(self.recorded.images, first.state, directory / BASE_NAME)
        record_target(
            target,
            self.options,
            later_machine(self.machine, 1),
            directory,
            no_progress,
            first.snapshots,
            origin=first.origin(target),
        )

    def _explore(
        self,
        chosen: Chosen,
        first: FirstCut,
        target: Target,
        recorded: Recorded,
        share: int | None,
        seconds: float | None,
    ) -> None:
        decider = recorded.decider(PRUNINGS if self.options.prune else frozenset())
        before = sum(one.states.explored for one in self.each)
        exploration = explore(
            decider,
            LocalEngine(decider, lambda: recorded.recoverer(self.machine), self.options.jobs),
            Budget(states=share, time_limit_seconds=seconds, seed=self.options.seed),
            self.options.profile.atomic_unit_bytes,
            lambda decided, _total, _kinds: self.progress("nested states", before + decided, 0),
            early_end=mount_end(recorded.log),
        )
        mounting = states_before(exploration, mount_end(recorded.log))
        kinds = {failure.kind: failure.states for failure in exploration.failures}
        new = {kind for kind in kinds if kind not in self.cases}
        self.shown.update(kinds)
        self.counts.append(dict(exploration.properties))
        self.inconclusive += len(exploration.inconclusive)
        counted = figures(recorded.log)
        self._note(
            chosen,
            first,
            log=LogResult(counted.writes, counted.flushes, counted.bytes, counted.promises),
            exploration=exploration,
            mount_states=mounting,
        )
        failures = tuple(each for each in exploration.failures if each.kind in new)
        if failures:
            explainer = Explainer(
                recorded, target, self._case_options(), self.machine, first.snapshots, traced=False
            )
            started = time.monotonic()
            cases = make_cases(
                recorded,
                decider,
                replace(exploration, failures=failures),
                explainer,
                self.directory / NESTED,
                self.progress,
            )
            self.shrink_seconds_left -= time.monotonic() - started
            self._keep(cases, first)

    def _case_options(self) -> RunOptions:
        return replace(self.options, shrink_seconds=max(0.0, self.shrink_seconds_left))

    def _note_failure(self, chosen: Chosen, first: FirstCut, failure: WorkloadFailed) -> None:
        """The program's own recovery fails on a disk that holds everything, if it ends at all."""
        if failure.result.timed_out:
            self.inconclusive += 1
            self._note(chosen, first, inconclusive=str(failure))
            return
        violation = Violation(
            Property.USABLE,
            RECOVERY_FAILED,
            "",
            f"after the power cut every promise holds, but recovery fails: {failure}",
        )
        exploration = exploration_of(first.state, (violation,))
        self.counts.append(property_counts([(violation,)], [Property.USABLE]))
        self.shown[kind_of(violation)] += 1
        self._note(chosen, first, exploration=exploration)
        if kind_of(violation) in self.cases or Property.USABLE not in self.options.properties:
            return
        options = replace(self.options, shrink=False, explain=False)
        explainer = Explainer(self.recorded, self.target, options, self.machine, Snapshots())
        decider = self.recorded.decider(PRUNINGS)
        directory = self.directory / NESTED
        cases = make_cases(self.recorded, decider, exploration, explainer, directory, self.progress)
        self._keep(cases, first)

    def _note(
        self,
        chosen: Chosen,
        first: FirstCut,
        *,
        log: LogResult = NOTHING_SENT,
        exploration: Exploration | None = None,
        mount_states: int = 0,
        inconclusive: str = "",
    ) -> None:
        kinds = [] if exploration is None else [each.kind for each in exploration.failures]
        self.each.append(
            RecoveryResult(
                first_cut=self._first_cut(first),
                promises=len(first.promises),
                pages_changed=chosen.pages_changed,
                log=log,
                states=NOTHING_EXPLORED if exploration is None else states_result(exploration),
                mount_states=mount_states,
                violations=sorted(f"{name.value}: {rule}" for name, rule in kinds),
                inconclusive=inconclusive,
            )
        )

    def _first_cut(self, first: FirstCut) -> FirstCutResult:
        return first_cut_result(first.state, step_under_way(self.recorded, first.state.cut))

    def _keep(self, cases: tuple[Case, ...], first: FirstCut) -> None:
        for case in cases:
            kind = Property(case.finding.property), case.finding.rule
            self.cases[kind] = case, self._first_cut(first)

    def _told(self) -> tuple[Case, ...]:
        """The cases, each with the number of nested states that show its kind."""
        return tuple(
            replace(case, finding=told(case.finding, first, self.shown[kind]))
            for kind, (case, first) in self.cases.items()
        )


def _seconds_left(deadline: float | None) -> float | None:
    return None if deadline is None else deadline - time.monotonic()

"""`crashsim run --cut live` as a function: one repository, cut again and again, and going on.

See docs/live-cuts.md. Each life is a recording that begins with what the power cut before it left.
What its guest recovers is judged by all promises still in force, tidied up, and worked on.
"""

import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from crashsim.campaigns.explaining import Explainer, Snapshots
from crashsim.campaigns.findings import Case, make_cases, step_under_way
from crashsim.campaigns.inspection import (
    CANNOT_GO_ON,
    Inspection,
    cannot_go_on,
    inspect,
    sent_before,
)
from crashsim.campaigns.lives import (
    Life,
    LivePlan,
    cut_life,
    has_lived_enough,
    is_whole,
    later_machine,
    life_disturbances,
    plan_life,
    tidy_up,
)
from crashsim.campaigns.options import Progress, RunOptions
from crashsim.campaigns.recording import record_target
from crashsim.campaigns.results import LifeResult
from crashsim.disk.recording import BASE_NAME
from crashsim.disk.survivor import write_image
from crashsim.errors import InfrastructureError
from crashsim.explore.deciding import does_not_mount
from crashsim.explore.exploration import Kind, exploration_of, kind_of
from crashsim.explore.verdict import PRUNINGS
from crashsim.faults.disturbances import EXCLUDE
from crashsim.machines.failures import GuestDied
from crashsim.machines.protocol import Guest, Machine, Recovery
from crashsim.oracles.protocol import Property, Violation
from crashsim.workloads.git import GitWorkload
from crashsim.workloads.origin import Origin
from crashsim.workloads.protocol import WorkloadFailed
from crashsim.workloads.session import ROOT

LIVES = "lives"
"""The directory of the recordings: of the last life, once all are over."""
NOTES = "lives.jsonl"
"""One line a life, written as soon as it is known what became of it."""


class RepositoryLost(InfrastructureError):
    """Not for users: work cannot go on with what the last power cut left."""


@dataclass
class Endurance:
    """All lives of one run.

    :ivar cases: one of each kind of violation, from the first life that showed it.
    :ivar shown: kind -> after how many lives.
    :ivar verdicts: after each life.
    :ivar inconclusive: which checks gave no answer, and why.
    """

    plan: LivePlan
    options: RunOptions
    machine: Machine
    directory: Path
    progress: Progress
    cases: dict[Kind, Case] = field(default_factory=dict)
    shown: Counter[Kind] = field(default_factory=Counter)
    verdicts: list[tuple[Violation, ...]] = field(default_factory=list)
    notes: list[LifeResult] = field(default_factory=list)
    inconclusive: list[str] = field(default_factory=list)
    repositories: int = 0
    earlier_lost: int = 0

    def run(self, cuts: int) -> None:
        """Live `cuts` lives, or as many as there is time for; recover from the last cut, too."""
        last: Life | None = None
        limit = self.options.time_limit_seconds
        started = time.monotonic()
        try:
            for number in range(1, cuts + 1):
                if last is not None and limit is not None and time.monotonic() > started + limit:
                    break
                self.progress(self._phase(), number - 1, cuts)
                following = self._follow(last, number)
                if last is not None:
                    last.close()
                    shutil.rmtree(last.directory)
                last = following
            if last is not None:
                self._inspect_last(last)
            self.progress(self._phase(), cuts, cuts)
        finally:
            if last is not None:
                last.close()

    def _phase(self) -> str:
        return f"lives ({len(self.cases)} kinds of violations)" if self.cases else "lives"

    def _follow(self, last: Life | None, number: int) -> Life:
        """The life after `last`, in the same repository if that can live on."""
        if last is None:
            return self._begin_anew(number)
        inspection = Inspection()
        life: Life | None = None
        try:
            life = self._live_surely(number, last, inspection)
        except RepositoryLost:
            pass  # what is broken is in the inspection
        except WorkloadFailed as failure:
            inspection.violations = (*(inspection.violations or ()), cannot_go_on(failure))
        self._settle(last, inspection)
        return life or self._begin_anew(number)

    def _live_surely(self, number: int, last: Life, inspection: Inspection) -> Life:
        """`_live`, and once more in a fresh guest if the first one went away.

        If it went away while it recovered, and others do so, too, that is the disk's fault.
        """
        try:
            return self._live(number, last, inspection)
        except GuestDied:
            if inspection.violations is None:
                self._decide(last, inspection)
                if inspection.violations:
                    raise RepositoryLost("guests die of it") from None
        return self._live(number, last, inspection)

    def _begin_anew(self, number: int) -> Life:
        self.repositories += 1
        return self._live(number, None, Inspection())

    def _live(self, number: int, last: Life | None, inspection: Inspection) -> Life:
        """Recover what `last` left, go on, and be cut.

        Raises RepositoryLost, WorkloadFailed, and what the machine raises.
        """
        started = time.perf_counter()
        directory = self.directory / LIVES / f"{number:05}"
        if directory.exists():
            shutil.rmtree(directory)  # of a repository that could not live on
        directory.mkdir(parents=True)
        target = plan_life(self.plan, number, fresh=last is None)
        origin = None
        if last is not None:
            write_image(last.recorded.images, last.state, directory / BASE_NAME)
            origin = Origin(
                last.moment.promises[-1:], self._recovered(last, inspection, target.workload)
            )
        snapshots = Snapshots()
        record_target(
            target,
            self._options(number),
            later_machine(self.machine, number),
            directory,
            lambda *_: None,
            snapshots,
            origin=origin,
            enough=lambda _name, writer: has_lived_enough(self.plan, writer),
        )
        return cut_life(
            self.plan,
            self.options,
            number,
            target,
            directory,
            snapshots,
            fresh=last is None,
            lossy=bool(inspection.violations),
            seconds=time.perf_counter() - started,
        )

    def _options(self, number: int) -> RunOptions:
        disturbances = life_disturbances(self.options.disturbances, self.plan, number)
        return replace(self.options, disturbances=disturbances)

    def _recovered(
        self, last: Life, inspection: Inspection, workload: object
    ) -> Callable[[Guest, Recovery], None]:
        assert isinstance(workload, GitWorkload)

        def recovered(guest: Guest, recovery: Recovery) -> None:
            if recovery.tree is None:
                inspection.violations = (does_not_mount(recovery),)
                raise RepositoryLost("it does not mount")
            tree = recovery.tree
            inspect(last, tree, inspection)
            tidy_up(guest, inspection.tidied)
            if inspection.tidied.reasons:
                tree = guest.tree(ROOT, exclude=EXCLUDE, collect=last.recorded.collect)
            if not is_whole(tree):
                raise RepositoryLost("it is damaged")
            workload.stage(guest)

        return recovered

    def _decide(self, last: Life, inspection: Inspection) -> None:
        """The guest died of what it was to recover: was it that, or the machinery?"""
        with last.recorded.recoverer(self.machine) as recoverer:
            verdict = last.recorded.decider(frozenset()).decide(last.state, recoverer)
        inspection.violations = verdict.violations

    def _inspect_last(self, last: Life) -> None:
        """Recover from the last cut: nobody goes on from there."""
        inspection = Inspection()
        with (
            last.recorded.recoverer(self.machine) as recoverer,
            recoverer.recover(last.state) as attempt,
        ):
            recovery = attempt.recovery
        if recovery.tree is None:
            inspection.violations = (does_not_mount(recovery),)
        else:
            inspect(last, recovery.tree, inspection)
        self._settle(last, inspection)

    def _settle(self, life: Life, inspection: Inspection) -> None:
        """Note what became of a life, and make cases of what is new."""
        violations = inspection.violations or ()
        if inspection.inconclusive:
            self.inconclusive.append(f"life {life.number}: {inspection.inconclusive}")
        self.verdicts.append(violations)
        kinds = {kind_of(each) for each in violations}
        self.shown.update(kinds)
        new = [
            each
            for each in violations
            if kind_of(each) not in self.cases and each.property in self.options.properties
        ]
        self._note(life, inspection, kinds)
        for case in self._make_cases(life, tuple(new)) if new else ():
            self.cases[Property(case.finding.property), case.finding.rule] = case

    def _note(self, life: Life, inspection: Inspection, kinds: set[Kind]) -> None:
        made = len(life.moment.promises)
        # What a life begins with is promised first, after what is carried over from the one before.
        begun = made if life.is_recovery else min(made, 1 if life.fresh else 2)
        self.earlier_lost += not life.fresh and inspection.held < begun
        sent = sent_before(life.recorded.log, life.state.cut)
        note = LifeResult(
            number=life.number,
            step=step_under_way(life.recorded, life.state.cut),
            cut=life.state.cut,
            pending=len(life.recorded.timeline.pending_rows(life.state.cut)),
            sent=sent,
            dropped=len(life.state.dropped),
            torn=len(life.state.torn),
            promises=made,
            held=inspection.held,
            violations=sorted(f"{name.value}: {rule}" for name, rule in kinds),
            tidied=inspection.tidied.reasons,
            fresh=life.fresh,
            repository_bytes=inspection.repository_bytes,
            seconds=round(life.seconds, 3),
        )
        self.notes.append(note)
        with (self.directory / NOTES).open("ab") as file:
            file.write(msgspec.json.encode(note) + b"\n")

    def _make_cases(self, life: Life, violations: tuple[Violation, ...]) -> tuple[Case, ...]:
        exploration = exploration_of(life.state, violations)
        options = self._options(life.number)
        if any(each.rule == CANNOT_GO_ON for each in violations):
            options = replace(options, shrink=False, explain=False)
        explainer = Explainer(life.recorded, life.target, options, self.machine, life.snapshots)
        decider = life.recorded.decider(PRUNINGS)
        return make_cases(
            life.recorded, decider, exploration, explainer, self.directory, self.progress
        )

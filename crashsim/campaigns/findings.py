"""From a kind of violation to a case: shrunk, told by the write it hangs on, explained."""

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from crashsim.campaigns.explaining import Explainer, look_at
from crashsim.campaigns.options import Progress
from crashsim.campaigns.recorded import Recorded
from crashsim.campaigns.results import Finding, TornResult, WriteNote
from crashsim.disk.slice import slice_recording
from crashsim.explain.explain import Explanation
from crashsim.explore.cuts import Cuts, meaningful_cuts
from crashsim.explore.deciding import Decider
from crashsim.explore.exploration import Exploration, Failure
from crashsim.explore.minimize import ShrinkBudget
from crashsim.explore.needed import Telling, tell
from crashsim.explore.recovery import Recoverer
from crashsim.explore.shrink import Trials, shrink
from crashsim.oracles.protocol import Property, Violation
from crashsim.workloads.marks import step_name

SHRINK_CHECKS_MAX = 200
TELL_CHECKS_MAX = 60
TELL_SECONDS_MIN = 5.0
SHARE_OF_THE_REST = 3
"""Each finding may use one third of the shrinking time that is left for itself, and another third
for naming the write that it hangs on."""


@dataclass(frozen=True)
class Case:
    """A finding and what its bundle is made of.

    :ivar recording: directory of the recording, sliced to what the finding needs.
    :ivar evidence: name -> text: what the kernel and cross-checks said.
    """

    finding: Finding
    recording: Path
    evidence: Mapping[str, str] = field(default_factory=dict)


def make_cases(
    recorded: Recorded,
    decider: Decider,
    exploration: Exploration,
    explainer: Explainer,
    directory: Path,
    progress: Progress,
) -> tuple[Case, ...]:
    """One case for each kind of violation of the properties asked for, the most telling first.

    All share `options.shrink_seconds`. What the time does not suffice for stays as it was met.
    """
    failures = _by_weight(exploration.failures, explainer.options.properties)
    cuts = meaningful_cuts(recorded.timeline)
    seconds_left = explainer.options.shrink_seconds if explainer.options.shrink else 0.0
    cases: list[Case] = []
    with recorded.recoverer(explainer.machine) as recoverer:
        for done, failure in enumerate(failures):
            progress("shrink and explain", done, len(failures))
            started = time.monotonic()
            budget = ShrinkBudget(SHRINK_CHECKS_MAX, seconds_left / SHARE_OF_THE_REST)
            trials = _trials(failure, decider, recoverer, recorded, budget)
            trials.explored = exploration.verdicts
            telling = _smallest_telling(trials, cuts)
            seconds_left = max(0.0, seconds_left - (time.monotonic() - started))
            name = f"{failure.violation.property}-{_slug(failure.violation.rule)}"
            target = directory / "cases" / name
            slice_recording(recorded.log.directory, telling.state.cut, target)
            finding = _finding(name, failure, trials.violation, telling, recorded)
            evidence: Mapping[str, str] = {}
            if explainer.options.explain:
                look = look_at(recoverer, decider.oracle, telling.state)
                finding = _with_words(finding, explainer.explain(telling, trials.violation, look))
                evidence = look.evidence
            cases.append(Case(finding, target, evidence))
    progress("shrink and explain", len(failures), len(failures))
    return tuple(cases)


def _by_weight(failures: Iterable[Failure], properties: Sequence[Property]) -> list[Failure]:
    """The kind that most states show first for each property, then all others likewise."""
    order = list(Property)
    wanted = sorted(
        (failure for failure in failures if failure.violation.property in properties),
        key=lambda each: (order.index(each.violation.property), -each.states, each.violation.rule),
    )
    firsts = {failure.violation.property: failure for failure in reversed(wanted)}
    leading = [failure for failure in wanted if firsts[failure.violation.property] is failure]
    return leading + [failure for failure in wanted if failure not in leading]


def _trials(
    failure: Failure,
    decider: Decider,
    recoverer: Recoverer,
    recorded: Recorded,
    budget: ShrinkBudget,
) -> Trials:
    return Trials(
        decide=lambda state: decider.decide(state, recoverer),
        timeline=recorded.timeline,
        kind=failure.kind,
        best=failure.state,
        violation=failure.violation,
        budget=budget,
    )


def _smallest_telling(trials: Trials, cuts: Cuts) -> Telling:
    if trials.budget.seconds <= 0:
        return Telling(trials.best, (), clean=False)
    shrink(trials, cuts)
    return tell(trials, ShrinkBudget(TELL_CHECKS_MAX, max(trials.budget.seconds, TELL_SECONDS_MIN)))


def _with_words(finding: Finding, told: Explanation) -> Finding:
    notes = [
        WriteNote(note.write, note.offset_bytes, note.length_bytes, note.what)
        for note in told.notes
    ]
    return msgspec.structs.replace(finding, explanation=told.sentences, writes=notes)


def _finding(
    name: str, failure: Failure, violation: Violation, telling: Telling, recorded: Recorded
) -> Finding:
    state = telling.state
    return Finding(
        id=name,
        property=violation.property.value,
        rule=violation.rule,
        subject=violation.subject,
        detail=violation.detail,
        blame=violation.blame.value,
        cut=state.cut,
        dropped=sorted(state.dropped),
        torn=[TornResult(each.write, list(each.kept_units)) for each in sorted(state.torn)],
        explanation=[],
        needed=list(telling.needed),
        states=failure.states,
        step=step_under_way(recorded, state.cut),
    )


def step_under_way(recorded: Recorded, cut: int) -> str:
    """The workload's step that had begun last before `cut`; empty before the first one."""
    names = [step_name(mark.text) for mark in recorded.log.marks if mark.position < cut]
    return next((name for name in reversed(names) if name is not None), "")


def _slug(rule: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", rule.lower()).strip("-")

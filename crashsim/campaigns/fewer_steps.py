"""`crashsim run --shrink-steps`: the fewest steps of a workload that still show a finding."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from crashsim.campaigns.options import Progress, RunOptions, no_progress
from crashsim.campaigns.results import Finding
from crashsim.campaigns.run import RunOutcome, prepare_machine, run_campaign
from crashsim.campaigns.targets import Target
from crashsim.explore.minimize import ShrinkBudget
from crashsim.explore.steps import ShrunkSteps, shrink_steps
from crashsim.workloads.command import CommandWorkload
from crashsim.workloads.git import GitWorkload
from crashsim.workloads.protocol import Step, WorkloadFailed

RECORDINGS_MAX = 24
SECONDS_MAX = 900.0


@dataclass(frozen=True)
class FewerSteps:
    """A finding's kind, shown by fewer steps.

    :ivar finding: the one that had to stay.
    :ivar shrunk: the steps that are left, and how many recordings it took to know.
    :ivar steps_before: how many there were.
    :ivar outcome: a whole run over the steps that are left; None where none can be left out.
    """

    finding: Finding
    shrunk: ShrunkSteps[Step, Finding]
    steps_before: int
    outcome: RunOutcome | None


def fewer_steps(
    target: Target,
    finding: Finding,
    options: RunOptions,
    progress: Progress = no_progress,
) -> FewerSteps:
    """Leave out steps, record anew and explore, as long as the kind of `finding` still shows.

    Each recording is another execution, so a kind that needs luck may take more steps than it
    must: what is left fails for certain, that it is minimal is only as sure as `options.states`.

    :param finding: of a run over `target` with `options`.
    """
    steps = tuple(target.workload.steps)
    names = [step.name for step in steps]
    failing = names.index(finding.step) if finding.step in names else len(steps) - 1
    machine = prepare_machine(options, target.payload, progress)
    budget = ShrinkBudget(RECORDINGS_MAX, SECONDS_MAX)
    with tempfile.TemporaryDirectory(prefix="crashsim-steps-", dir=options.out) as scratch:
        quick = options.bare(Path(scratch))

        def attempt(tried: Sequence[Step]) -> Finding | None:
            progress(f"fewer steps ({len(tried)} of {len(steps)})", budget.spent, RECORDINGS_MAX)
            try:
                outcome = run_campaign(with_steps(target, tried), quick, machine=machine)
            except WorkloadFailed:
                return None  # a step needed one that was left out
            return next((one for one in outcome.result.findings if _same_kind(one, finding)), None)

        shrunk = shrink_steps(steps, failing, attempt, budget)
    outcome = None
    if len(shrunk.steps) < len(steps):
        outcome = run_campaign(with_steps(target, shrunk.steps), options, progress, machine)
    return FewerSteps(finding, shrunk, len(steps), outcome)


def with_steps(target: Target, steps: Sequence[Step]) -> Target:
    """The same target with only these steps."""
    workload = target.workload
    assert isinstance(workload, GitWorkload | CommandWorkload)
    return replace(target, workload=replace(workload, steps=tuple(steps)))


def _same_kind(one: Finding, other: Finding) -> bool:
    return (one.property, one.rule) == (other.property, other.rule)

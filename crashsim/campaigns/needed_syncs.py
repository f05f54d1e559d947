"""`crashsim run --necessity`: which of a program's syncs does it need, on a real kernel?

The nth call of one kind, in each process of one step, is made to return success without having any
effect: strace(1), option --inject with retval. Then the workload is recorded and crashed as usual,
with the disturbances of the run, and, where nothing breaks, without them: what others sync reveals
what is done in the wrong order, and saves what was not synced at all. What breaks that did not
break before is what the call is for.
"""

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from crashsim.campaigns.fewer_steps import with_steps
from crashsim.campaigns.necessity import NecessityResult, Removal, common_path
from crashsim.campaigns.options import Progress, RunOptions, no_progress
from crashsim.campaigns.results import RunResult
from crashsim.campaigns.run import prepare_machine, run_campaign
from crashsim.campaigns.targets import Target
from crashsim.explain.lineage import FileEvent
from crashsim.explain.tracing import trace_workload
from crashsim.oracles.protocol import Property
from crashsim.workloads.protocol import Step

SYNC_CALLS = ("fsync", "fdatasync", "sync_file_range", "syncfs", "sync", "msync")


@dataclass(frozen=True)
class SyncSite:
    """The nth call of one kind in each process of a step.

    :ivar ordinal: 1 for the first.
    :ivar paths: what a trace showed it to be a sync of.
    """

    step: str
    call: str
    ordinal: int
    paths: tuple[str, ...]

    @property
    def words(self) -> str:
        """Of what, and which of the calls."""
        return f"{', '.join(self.paths)} (no. {self.ordinal})"


def needed_syncs(
    target: Target,
    baseline: RunResult,
    options: RunOptions,
    progress: Progress = no_progress,
) -> NecessityResult:
    """Take every sync away, one site at a time, and say what breaks.

    :param baseline: of a run over `target` with `options`; what broke there already is not counted.

    Raises InfrastructureError where guests fail, and WorkloadFailed.
    """
    machine = prepare_machine(options, target.payload, progress)
    trace = trace_workload(machine, target.workload, options.filesystem)
    sites = sync_sites(trace.syncs)
    known = {(finding.property, finding.rule) for finding in baseline.findings}
    removals, states = [], 0
    with tempfile.TemporaryDirectory(prefix="crashsim-syncs-", dir=options.out) as scratch:
        quick = options.bare(Path(scratch))
        ways = [quick, replace(quick, disturbances=())] if quick.disturbances else [quick]
        for done, site in enumerate(sites):
            progress("take syncs away", done, len(sites))
            steps = [omitting(site, step) for step in target.workload.steps]
            broken: set[str] = set()
            for way in ways:
                result = run_campaign(with_steps(target, steps), way, machine=machine).result
                states += result.states.explored
                kinds = {(finding.property, finding.rule) for finding in result.findings} - known
                broken = {name for name, _ in kinds}
                if broken:
                    break
            lost: list[str] = [name.value for name in Property if name.value in broken]
            breaks = {options.filesystem.spelling: lost}
            removals.append(Removal(site.step, site.call, site.words, breaks))
    return NecessityResult(target.name, removals, states)


def sync_sites(syncs: Iterable[FileEvent]) -> list[SyncSite]:
    """The sites of traced syncs, in the order in which they are first reached."""
    counts: Counter[tuple[str, str, str]] = Counter()
    paths: dict[tuple[str, str, int], list[str]] = {}
    for event in syncs:
        process = event.step, event.call, event.command
        counts[process] += 1
        found = paths.setdefault((event.step, event.call, counts[process]), [])
        path = common_path(event.path) or "/"
        if path not in found:
            found.append(path)
    return [
        SyncSite(step, call, ordinal, tuple(found))
        for (step, call, ordinal), found in paths.items()
    ]


def omitting(site: SyncSite, step: Step) -> Step:
    """The step, with the site's call made to do nothing; any other step as it is."""
    if step.name != site.step:
        return step
    return replace(step, argv=_without_sync(site, step.argv))


def _without_sync(site: SyncSite, argv: Sequence[str]) -> tuple[str, ...]:
    return (
        *("strace", "-f", "-qqq", "-o", "/dev/null", "-e", "signal=none"),
        *("-e", f"trace={site.call}", f"--inject={site.call}:retval=0:when={site.ordinal}"),
        *("--", *argv),
    )

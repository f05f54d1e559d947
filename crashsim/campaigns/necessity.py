"""Which syncs does a method need? Each is taken away, and the crashes are judged again.

The model makes this exact: no program notices whether a sync did anything, so the log of a run
without one sync is the log of the run, minus that entry (`Log.without`).
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import msgspec

from crashsim.campaigns.methods import Method
from crashsim.campaigns.options import Progress, no_progress
from crashsim.campaigns.simulated_store import ModelVerdict, SimulatedRun, Trees, explore_run
from crashsim.campaigns.validate import (
    MODELS_OF_FILESYSTEMS,
    ModelOptions,
    method_runs,
)
from crashsim.model.models import model_named
from crashsim.model.operations import Scope, Sync
from crashsim.oracles.protocol import Property
from crashsim.workloads.simulated import PROGRAM, program

_VARIABLE = (
    (re.compile(r"\b[0-9a-f]{38,64}\b"), "*"),
    (
        re.compile(
            r"(tmp_[a-z]+|tmp_objdir-[a-z-]+|bulk_fsync|packed-refs\.tmp)_[0-9a-f]+_[0-9a-f]+"
        ),
        r"\1",
    ),
    (re.compile(r"/objects/[0-9a-f]{2}(?=/|$)"), "/objects/*"),
)


class Removal(msgspec.Struct, frozen=True):
    """One sync of a method, taken away wherever the same command makes it.

    :ivar operation: the command, or the step of a workload, that makes it.
    :ivar call: fsync, fdatasync, sync_file_range or syncfs.
    :ivar path: of what, with names that change from run to run as `*`.
    :ivar breaks: filesystem -> the claimed properties that break without it.
    """

    operation: str
    call: str
    path: str
    breaks: dict[str, list[str]]

    @property
    def needed(self) -> bool:
        """Whether some crash shows what it is for."""
        return any(self.breaks.values())


class NecessityResult(msgspec.Struct, frozen=True):
    """Every sync of a method, and what it is for."""

    method: str
    removals: list[Removal]
    states: int
    schema: str = "crashsim.necessity/1"

    @property
    def unneeded(self) -> list[Removal]:
        """The syncs of which no crash within the bounds shows the need."""
        return [each for each in self.removals if not each.needed]


@dataclass(frozen=True, slots=True)
class Site:
    """Where a sync is made: the calls of one run at one site go together.

    :ivar ordinal: tells the syncs of one directory, or of the filesystem, apart: 1 for the first.
        Files of one kind are as many as there happen to be, and all of them go together: 0.
    """

    operation: str
    call: str
    path: str
    ordinal: int

    @property
    def words(self) -> str:
        """The path, and which of its syncs."""
        return self.path if self.ordinal < 2 else f"{self.path} ({self.ordinal})"


def necessity(
    method: Method,
    filesystems: Iterable[str],
    options: ModelOptions,
    progress: Progress = no_progress,
) -> NecessityResult:
    """Take each sync away, one site at a time, on each filesystem for which the method claims
    anything. Raises OperationFailed."""
    trees = Trees()
    runs = method_runs(method, program(PROGRAM), trees, options)
    claimed = {name: method.claims[name] for name in filesystems if method.claims.get(name)}
    sites = list(dict.fromkeys(site for run in runs for site, _ in sites_of(run)))
    removals = []
    states = 0
    for done, site in enumerate(sites):
        progress("take syncs away", done, len(sites))
        breaks: dict[str, list[str]] = {}
        for filesystem, properties in claimed.items():
            verdict = _without(site, runs, filesystem, trees, options)
            states += verdict.distinct
            lost = [name.value for name in Property if name in properties & verdict.broken.keys()]
            breaks[filesystem] = lost
        removals.append(Removal(site.operation, site.call, site.words, breaks))
    return NecessityResult(method.name, removals, states)


def sites_of(run: SimulatedRun) -> Iterator[tuple[Site, Sync]]:
    """The syncs of the last operation of a run, with their sites."""
    starts = [number for number, _ in run.commands]
    counts: Counter[tuple[int, str]] = Counter()
    for sync in run.log.syncs:
        if sync.number < run.since:
            continue
        command = bisect_right(starts, sync.number) - 1
        ordinal = 0
        if sync.is_directory or sync.scope is Scope.FILESYSTEM:
            counts[command, sync.path] += 1
            ordinal = counts[command, sync.path]
        name = run.commands[command][1]
        yield Site(name, sync.scope.value, common_path(sync.path), ordinal), sync


def common_path(path: str) -> str:
    """A path without what differs between two runs of one command: object names, counters."""
    for pattern, replacement in _VARIABLE:
        path = pattern.sub(replacement, path)
    return path


def _without(
    site: Site,
    runs: Sequence[SimulatedRun],
    filesystem: str,
    trees: Trees,
    options: ModelOptions,
) -> ModelVerdict:
    model = model_named(MODELS_OF_FILESYSTEMS[filesystem])
    verdict = ModelVerdict(model.name)
    for run in runs:
        numbers = [sync.number for found, sync in sites_of(run) if found == site]
        if numbers:
            explore_run(
                run,
                model,
                trees,
                verdict,
                log=run.log.without(numbers),
                states_limit=options.states_limit,
                seed=options.seed,
            )
    return verdict

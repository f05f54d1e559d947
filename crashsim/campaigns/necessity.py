"""Which syncs does a method need? Each is taken away, and the crashes are judged again.

The model makes this exact: no program notices whether a sync did anything, so the log of a run
without one sync is the log of the run, minus that entry (`Log.without`).

Where nothing breaks, the run is crashed with a bystander that syncs directories of the repository
meanwhile (`WithBystander`), which is what shows that names have to be durable before others are
removed. What breaks with all syncs in place is not counted for any of them: a method need not claim
anything with such a bystander around.
"""

import re
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from crashsim.campaigns.methods import Method
from crashsim.campaigns.options import Progress, no_progress
from crashsim.campaigns.simulated_judge import Trees
from crashsim.campaigns.simulated_store import (
    ModelVerdict,
    SimulatedRun,
    base_repository,
    explore_run,
    run_operations,
)
from crashsim.campaigns.validate import MODELS_OF_FILESYSTEMS, ModelOptions, sync_settings
from crashsim.model.models import model_named
from crashsim.model.operations import Entry, Log, Scope, Sync
from crashsim.model.tree import Tree
from crashsim.oracles.protocol import Property
from crashsim.workloads.simulated import PROGRAM, Call, StoreMachine, program
from crashsim.workloads.simulated_scenarios import SCENARIOS, Scenario

_VARIABLE = (
    (re.compile(r"\b[0-9a-f]{38,64}\b"), "*"),
    (
        re.compile(
            r"(tmp_objdir-[a-z-]+?|tmp_[a-z]+|bulk_fsync|packed-refs\.tmp)[_-][0-9a-f]+_[0-9a-f]+"
        ),
        r"\1",
    ),
    (re.compile(r"/objects/[0-9a-f]{2}(?=/|$)"), "/objects/*"),
    (re.compile(r"(/\.git/(?:logs|refs/heads))/.+?(\.lock)?$"), r"\1/*\2"),
)
_CHANGES = {"rename": "is named", "link": "is named", "unlink": "is gone", "rmdir": "is gone"}
"""What is told of the last change of names before a sync; of others: that it is made."""
_INSIDE = "/repo/.git/"


STATES_PER_RUN = 400
"""Enough for each need that is known to show: it takes 300 for a .rev, where a page is missing."""


class Removal(msgspec.Struct, frozen=True):
    """One sync of a method, taken away wherever the same command makes it.

    :ivar operation: the command, or the step of a workload, that makes it.
    :ivar call: fsync, fdatasync, sync_file_range or syncfs.
    :ivar path: of what, with names that change from run to run as `*`.
    :ivar breaks: filesystem -> the claimed properties that break without it.
    :ivar after: of a directory or a filesystem: the last change of names that it makes durable.
    :ivar by_bystander: it breaks only where another program syncs directories meanwhile.
    """

    operation: str
    call: str
    path: str
    breaks: dict[str, list[str]]
    after: str = ""
    by_bystander: bool = False

    @property
    def needed(self) -> bool:
        """Whether some crash shows what it is for."""
        return any(self.breaks.values())


class NecessityResult(msgspec.Struct, frozen=True):
    """Every sync of a method, and what it is for.

    :ivar states: distinct crash states that were judged.
    :ivar refuted: filesystem -> claimed properties that broke with all syncs in place, and
        without a bystander.
    """

    method: str
    removals: list[Removal]
    states: int
    seconds: float = 0.0
    refuted: dict[str, list[str]] = {}
    schema: str = "crashsim.necessity/1"

    @property
    def unneeded(self) -> list[Removal]:
        """The syncs of which no crash within the bounds shows the need."""
        return [each for each in self.removals if not each.needed]


@dataclass(frozen=True, slots=True)
class Site:
    """Where a sync is made: the calls of one run at one site go together.

    Files of one kind are as many as there happen to be. The syncs of one directory, or of the
    filesystem, are told apart by what was done last.

    :ivar after: the last change of names before; empty for a file.
    :ivar ordinal: 2 for the second of one command that nothing else tells from the first.
    """

    operation: str
    call: str
    path: str
    after: str = ""
    ordinal: int = 1

    @property
    def words(self) -> str:
        """What it comes after."""
        return self.after if self.ordinal == 1 else f"{self.after} ({self.ordinal})"


@dataclass(frozen=True)
class Trial:
    """One run, with its syncs by where they are made, to be crashed on each filesystem.

    :ivar sites: the numbers of the syncs.
    :ivar sound: filesystem -> the claimed properties that hold with all syncs in place.
    """

    run: SimulatedRun
    sites: Mapping[Site, Sequence[int]]
    sound: Mapping[str, frozenset[Property]]
    options: ModelOptions

    @classmethod
    def of(
        cls, run: SimulatedRun, claims: Mapping[str, frozenset[Property]], options: ModelOptions
    ) -> "Trial":
        """Crash the run as it is."""
        sound = {
            filesystem: claimed - _crashed(run, run.log, filesystem, options).broken.keys()
            for filesystem, claimed in claims.items()
        }
        return cls(run, _by_site(run), sound, options)

    def lost(self, site: Site, filesystem: str) -> frozenset[Property]:
        """What breaks without the syncs of one site."""
        log = self.run.log.without(self.sites[site])
        verdict = _crashed(self.run, log, filesystem, self.options)
        return self.sound[filesystem] & verdict.broken.keys()


def necessity(
    method: Method,
    filesystems: Iterable[str],
    options: ModelOptions,
    progress: Progress = no_progress,
    tried: Sequence[Scenario] = SCENARIOS,
) -> NecessityResult:
    """Take each sync away, one site at a time, on each filesystem for which the method claims
    anything. Raises OperationFailed."""
    started = time.perf_counter()
    claims = {name: method.claims[name] for name in filesystems if method.claims.get(name)}
    tried = [each for each in tried if method.covers_state or not each.of_state]
    alone: list[Trial] = []
    accompanied: list[Trial] = []
    for done, scenario in enumerate(tried):
        progress("with all syncs", done, len(tried))
        base = _base(program(PROGRAM), scenario, sync_settings(method))
        for trials, bystander in ((alone, False), (accompanied, True)):
            run = _run(program(PROGRAM), base, scenario, sync_settings(method), bystander)
            trials.append(Trial.of(run, claims, options))
    sites = list(dict.fromkeys(site for trial in alone for site in trial.sites))
    removals = []
    for done, site in enumerate(sites):
        progress("take syncs away", done, len(sites))
        breaks = _breaks(site, alone, claims)
        by_bystander = not any(breaks.values())
        if by_bystander:
            breaks = _breaks(site, accompanied, claims)
        removals.append(
            Removal(site.operation, site.call, site.path, breaks, site.words, by_bystander)
        )
    refuted: dict[str, list[str]] = {}
    for filesystem, claimed in claims.items():
        broken = set().union(*(claimed - trial.sound[filesystem] for trial in alone))
        if broken:
            refuted[filesystem] = [name.value for name in Property if name in broken]
    return NecessityResult(
        method.name,
        removals,
        sum(trial.run.judge.judged for trial in (*alone, *accompanied)),
        time.perf_counter() - started,
        refuted,
    )


def _breaks(
    site: Site, trials: Iterable[Trial], claims: Mapping[str, frozenset[Property]]
) -> dict[str, list[str]]:
    """What breaks without the syncs of a site, on each filesystem."""
    breaks: dict[str, list[str]] = {}
    for filesystem, claimed in claims.items():
        lost: set[Property] = set()
        for trial in trials:
            if site in trial.sites and not trial.sound[filesystem] <= lost:
                lost |= trial.lost(site, filesystem)
        breaks[filesystem] = [name.value for name in Property if name in claimed & lost]
    return breaks


def _base(call: Call, scenario: Scenario, settings: Sequence[str]) -> Tree:
    """What the operation of a scenario begins with."""
    store = StoreMachine(call, settings, base_repository(call))
    for before in scenario.before:
        store.do(before)
    return store.machine.tree()


def _run(
    call: Call, base: Tree, scenario: Scenario, settings: Sequence[str], bystander: bool
) -> SimulatedRun:
    return run_operations(
        call,
        base,
        settings,
        [scenario.operation],
        Trees(),
        crash_in_last=True,
        bystander=bystander,
        keeps_local_changes=scenario.keeps_changes,
    )


def _by_site(run: SimulatedRun) -> dict[Site, list[int]]:
    found: dict[Site, list[int]] = {}
    for site, sync in sites_of(run):
        found.setdefault(site, []).append(sync.number)
    return found


def sites_of(run: SimulatedRun) -> Iterator[tuple[Site, Sync]]:
    """The syncs of the last operation of a run, with their sites."""
    starts = [number for number, _ in run.commands]
    counts: Counter[tuple[int, str, str]] = Counter()
    for sync in run.log.syncs:
        if sync.number not in run.last or sync.number in run.foreign:
            continue
        command = bisect_right(starts, sync.number) - 1
        name, path = run.commands[command][1], common_path(sync.path)
        if sync.is_directory or sync.scope is Scope.FILESYSTEM:
            after = _last_change(run.log, sync.number)
            counts[command, path, after] += 1
            yield Site(name, sync.scope.value, path, after, counts[command, path, after]), sync
        else:
            yield Site(name, sync.scope.value, path), sync


def _last_change(log: Log, number: int) -> str:
    """In words: the last change of names before an operation."""
    last = max(
        (each for each in log.operations if isinstance(each, Entry) and each.number < number),
        key=lambda each: each.number,
    )
    verb, _, names = last.text.partition(" ")
    path = common_path(names.rpartition(" ")[2])
    place = path.removeprefix(_INSIDE) if path.startswith(_INSIDE) else "a file of the working tree"
    return f"{place} {_CHANGES.get(verb, 'is made')}"


def common_path(path: str) -> str:
    """A path without what differs between two runs of one command: object names, counters."""
    for pattern, replacement in _VARIABLE:
        path = pattern.sub(replacement, path)
    return path


def _crashed(run: SimulatedRun, log: Log, filesystem: str, options: ModelOptions) -> ModelVerdict:
    """What becomes of a run whose syncs are those of `log`."""
    model = model_named(MODELS_OF_FILESYSTEMS[filesystem])
    verdict = ModelVerdict(model.name)
    explore_run(run, model, verdict, log=log, states_limit=options.states_limit, seed=options.seed)
    return verdict

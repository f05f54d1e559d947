"""Whether deciding a state takes longer in a longer log.

One small file is rewritten in place with the same bytes and synced, N, 4 N and 16 N times: the tree
is the same in every state, and recovery has the same work, since N is enough to have gone round
ext4's journal. No pruning, so every state is recovered; no check in the guest, whose time would
hide ours.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from crashsim.campaigns.bench_deciding import InProcessOnly, Side, choose_states
from crashsim.campaigns.benchmark import Benchmark, Meter, Ratio, figure
from crashsim.campaigns.options import Progress, RunOptions
from crashsim.campaigns.recording import open_target, record_target
from crashsim.campaigns.targets import CommandChoice, choose_target
from crashsim.disk.state import CrashState
from crashsim.explore.deciding import Decider
from crashsim.machines.filesystems import Filesystem
from crashsim.machines.protocol import Machine
from crashsim.machines.qemu import QemuMachine
from crashsim.workloads.registry import TargetOptions

FACTORS = (1, 4, 16)

_SET_UP = "head -c 4096 /dev/urandom >state && sync"
_REWRITE = """
import os, sys
content = open("state", "rb").read()
descriptor = os.open("state", os.O_WRONLY)
for number in range(int(sys.argv[1])):
    os.pwrite(descriptor, content, 0)
    os.fsync(descriptor)
"""


@dataclass(frozen=True)
class _Plan:
    """What the three recordings have in common."""

    machine: Machine
    filesystem: Filesystem
    states: int
    parent: Path | None
    progress: Progress


@dataclass(frozen=True)
class _Length:
    """One of the logs, with what it takes to decide its states."""

    name: str
    side: Side
    states: list[CrashState]
    opening: Meter


def bench_length(
    rewrites: int, states: int, filesystem: Filesystem, parent: Path | None, progress: Progress
) -> Benchmark:
    """Record the three logs, then decide a state of each in turn.

    :param rewrites: N.
    :param states: how many states of each log.
    :param parent: where the recordings go; they are removed again.

    Raises InfrastructureError where no guest comes up.
    """
    machine = QemuMachine()
    plan = _Plan(machine, filesystem, states, parent, progress)
    with ExitStack() as stack:
        lengths = [_prepare(stack, plan, factor, rewrites) for factor in FACTORS]
        for number in range(min(len(length.states) for length in lengths)):
            progress("states", number, states)
            for length in lengths:
                length.side.decide([length.states[number]])
        progress("states", states, states)
    return Benchmark(
        "length",
        [
            *(figure(f"a state, {each.name}", "s", each.side.meter.seconds) for each in lengths),
            *(
                figure(f"of which CPU time of ours, {each.name}", "s", each.side.meter.own_seconds)
                for each in lengths
            ),
            *(figure(f"opening, once, {each.name}", "s", each.opening.seconds) for each in lengths),
        ],
        [*_ratios(lengths)],
        [
            f"{filesystem.spelling}: a file of 4 KiB rewritten and synced, at 1 x {rewrites} times",
            f"{len(lengths[0].side.meter.seconds)} states of each log in turn, without pruning",
            f"{machine.info.kind}, {machine.info.accel}: {machine.info.reason}",
        ],
    )


def _ratios(lengths: Sequence[_Length]) -> Iterator[Ratio]:
    first = lengths[0].side.meter
    for factor, length in zip(FACTORS[1:], lengths[1:], strict=True):
        this = length.side.meter
        whole, ours = (
            median(mine) / median(base)
            for mine, base in (
                (this.seconds, first.seconds),
                (this.own_seconds, first.own_seconds),
            )
        )
        yield Ratio(f"a state, log of {factor} x / 1 x", whole, "near 1")
        yield Ratio(f"of which CPU time of ours, {factor} x / 1 x", ours, "near 1")


def _prepare(stack: ExitStack, plan: _Plan, factor: int, rewrites: int) -> _Length:
    """Record one log and open it, up to the first state's verdict: that starts the guest."""
    opening = Meter()
    directory = Path(
        stack.enter_context(tempfile.TemporaryDirectory(prefix="crashsim-bench-", dir=plan.parent))
    )
    plan.progress(f"record {rewrites * factor} rewrites", 0, 0)
    command = ["python3", "-c", _REWRITE, str(rewrites * factor)]
    choice = CommandChoice(setup=_SET_UP, check="true")
    target = choose_target(None, None, command, choice, TargetOptions())
    options = RunOptions(filesystem=plan.filesystem, out=directory)
    record_target(target, options, plan.machine, directory / "recording", plan.progress)
    with opening.measure():
        recorded = stack.enter_context(open_target(target, options, directory / "recording"))
        states = choose_states(recorded, plan.states + 1)
    decider = Decider(
        recorded.images, recorded.timeline, InProcessOnly(recorded.oracle), frozenset()
    )
    recoverer = stack.enter_context(recorded.recoverer(plan.machine))
    side = Side(decider, [recoverer])
    decider.decide(states[0], recoverer)
    name = f"log of {factor} x ({len(recorded.log.requests):,} requests)"
    return _Length(name, side, states[1:], opening)

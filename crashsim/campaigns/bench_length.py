"""Whether deciding a state takes longer in a longer log.

One small file is rewritten in place with the same bytes and synced, N, 4 N and 16 N times: the tree
is the same in every state, and recovery has the same work, since N is enough to have gone round
ext4's journal. No pruning, so every state is recovered; no check in the guest, whose time would
hide ours.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from crashsim.campaigns.bench_deciding import InProcessOnly, Side, choose_states
from crashsim.campaigns.benchmark import Benchmark, Figure, Ratio, figure
from crashsim.campaigns.options import Progress, RunOptions
from crashsim.campaigns.recorded import Recorded
from crashsim.campaigns.run import open_target, record_target
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
class _Length:
    """One of the logs, with what it takes to decide its states."""

    factor: int
    side: Side
    states: list[CrashState]
    requests: int
    opening_seconds: float


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
    with ExitStack() as stack:
        lengths = [
            _prepare(
                stack, machine, factor, rewrites * factor, states, filesystem, parent, progress
            )
            for factor in FACTORS
        ]
        for number in range(min(len(length.states) for length in lengths)):
            progress("states", number, states)
            for length in lengths:
                length.side.decide([length.states[number]])
        progress("states", states, states)
    decided = [_figure(length) for length in lengths]
    first = decided[0]
    return Benchmark(
        "length",
        [
            *decided,
            *(
                Figure(f"opening, once, {_name(each)}", "s", *[each.opening_seconds] * 3)
                for each in lengths
            ),
        ],
        [
            Ratio(f"a state, log of {length.factor} x / 1 x", each.median / first.median, "near 1")
            for length, each in zip(lengths[1:], decided[1:], strict=True)
        ],
        [
            f"{filesystem.spelling}: a file of 4 KiB rewritten and synced {rewrites} times and more;"
            f" {len(lengths[0].side.seconds)} states of each log in turn, no pruning, one guest each",
            f"{machine.info.kind}, {machine.info.accel}: {machine.info.reason}",
        ],
    )


def _prepare(
    stack: ExitStack,
    machine: Machine,
    factor: int,
    rewrites: int,
    states: int,
    filesystem: Filesystem,
    parent: Path | None,
    progress: Progress,
) -> _Length:
    recorded, opening = stack.enter_context(
        _recording(machine, rewrites, filesystem, parent, progress)
    )
    started = time.perf_counter()
    chosen = choose_states(recorded, states + 1)
    opening += time.perf_counter() - started
    oracle = InProcessOnly(recorded.oracle)
    decider = Decider(recorded.images, recorded.timeline, oracle, frozenset())
    side = Side(decider, stack.enter_context(recorded.recoverer(machine)))
    # The first one starts the guest.
    decider.decide(chosen[0], side.recoverer)
    return _Length(factor, side, chosen[1:], len(recorded.log.requests), opening)


@contextmanager
def _recording(
    machine: Machine, rewrites: int, filesystem: Filesystem, parent: Path | None, progress: Progress
) -> Iterator[tuple[Recorded, float]]:
    """A fresh recording, opened, and the seconds that opening it took."""
    with tempfile.TemporaryDirectory(prefix="crashsim-bench-", dir=parent) as directory:
        command = ["python3", "-c", _REWRITE, str(rewrites)]
        choice = CommandChoice(setup=_SET_UP, check="true")
        target = choose_target(None, None, command, choice, TargetOptions())
        options = RunOptions(filesystem=filesystem, out=Path(directory))
        recording = Path(directory) / "recording"
        progress(f"record {rewrites} rewrites", 0, 0)
        record_target(target, options, machine, recording, progress)
        started = time.perf_counter()
        with open_target(target, options, recording) as recorded:
            yield recorded, time.perf_counter() - started


def _name(length: _Length) -> str:
    return f"log of {length.factor} x ({length.requests:,} requests)"


def _figure(length: _Length) -> Figure:
    return figure(f"a state, {_name(length)}", "s", length.side.seconds)

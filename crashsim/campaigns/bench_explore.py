"""How many crash states are decided a second, against the usual way in an equal guest.

All sides get states of one fresh recording of git. Ours decides them in the order of a run, with
all prunings, once with as many guests as a run has and once with a single one; the usual way gets
every n-th of them, in a guest of its own, so that all meet the same kinds of states and the same
load of the host.
"""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import mean

from crashsim.campaigns.bench_deciding import Side, choose_states
from crashsim.campaigns.bench_rebuild import UsualWay
from crashsim.campaigns.benchmark import Benchmark, Meter, Ratio, figure
from crashsim.campaigns.explaining import Snapshots
from crashsim.campaigns.options import Progress, RunOptions
from crashsim.campaigns.recorded import SLOT, Recorded
from crashsim.campaigns.recording import open_target, record_target
from crashsim.campaigns.targets import CommandChoice, choose_target
from crashsim.disk.state import CrashState
from crashsim.faults.disturbances import parse_disturbances
from crashsim.machines.filesystems import Filesystem
from crashsim.machines.protocol import Machine
from crashsim.machines.qemu import QemuMachine
from crashsim.workloads.git import REPOSITORY
from crashsim.workloads.registry import TargetOptions

BOUND = "at least 10"


def bench_explore(
    count: int,
    batch: int,
    jobs: int,
    filesystem: Filesystem,
    parent: Path | None,
    progress: Progress,
) -> Benchmark:
    """Record git with `core.fsync=none` and decide states of it in both ways, in turn.

    :param count: how many states ours decides.
    :param batch: how many of them there are for each one that the usual way decides.
    :param jobs: how many guests decide side by side, as in a run.
    :param parent: where the recording goes; it is removed again.

    Raises InfrastructureError where no guest comes up.
    """
    machine = QemuMachine()
    with _fresh_recording(machine, filesystem, parent, progress) as recorded, ExitStack() as stack:
        run, alone = (
            Side(
                recorded.decider(),
                [stack.enter_context(recorded.recoverer(machine)) for _ in range(guests)],
            )
            for guests in (jobs, 1)
        )
        usual = UsualWay(
            stack.enter_context(machine.start()),
            recorded.log,
            recorded.profile.atomic_unit_bytes,
            recorded.filesystem.mount(SLOT),
            REPOSITORY,
        )
        states = choose_states(recorded, count)
        rebuilding, sound = _take_turns(states, batch, (run, alone), usual, progress)
        notes = [
            f"git on {filesystem.spelling}, core.fsync=none, disturbed: a log of "
            f"{len(recorded.log.requests)} requests; {len(states)} states",
            f"{jobs} guests: {run.decided_by}; {_phases(run)}",
            f"one guest: {alone.decided_by}; {_phases(alone)}",
            f"the usual way: {len(rebuilding.seconds)} of these states, {sound} sound by git fsck",
            f"{machine.info.kind}, {machine.info.accel}: {machine.info.reason}",
        ]
        return _result(jobs, run.meter, alone.meter, rebuilding, notes)


def _take_turns(
    states: Sequence[CrashState],
    batch: int,
    sides: Sequence[Side],
    usual: UsualWay,
    progress: Progress,
) -> tuple[Meter, int]:
    """Let everyone decide; what the usual way took, and how many states it found sound."""
    meter = Meter()
    sound = 0
    for first in range(0, len(states), batch):
        progress("states", first, len(states))
        part = states[first : first + batch]
        for side in sides:
            side.decide(part)
        with meter.measure():
            sound += usual.decide(part[len(part) // 2])
    progress("states", len(states), len(states))
    return meter, sound


@contextmanager
def _fresh_recording(
    machine: Machine, filesystem: Filesystem, parent: Path | None, progress: Progress
) -> Iterator[Recorded]:
    with tempfile.TemporaryDirectory(prefix="crashsim-bench-", dir=parent) as directory:
        target = choose_target("git", None, None, CommandChoice(), TargetOptions(fsync="none"))
        options = RunOptions(
            filesystem=filesystem,
            out=Path(directory),
            disturbances=parse_disturbances(None, 0),
        )
        recording = Path(directory) / "recording"
        record_target(target, options, machine, recording, progress, Snapshots())
        with open_target(target, options, recording) as recorded:
            yield recorded


def _result(jobs: int, run: Meter, alone: Meter, usual: Meter, notes: list[str]) -> Benchmark:
    """Rates follow from means: what a pruning saves is in them, and not in a median."""
    ours = {f"as in a run ({jobs} guests)": run, "one guest": alone}
    sides = {**ours, "rebuild, mount, git fsck, umount": usual}
    figures = [figure(f"a state: {name}", "s", side.seconds) for name, side in sides.items()]
    for name, side in sides.items():
        figures.append(figure(f"states a second: {name}", "1/s", [1 / mean(side.seconds)]))
        figures.append(figure(f"CPU time of a state: {name}", "s", [mean(side.cpu_seconds)]))
    ratios = [
        Ratio(
            f"{name} / usual way",
            mean(usual.seconds) / mean(side.seconds),
            BOUND if side is run else "",
        )
        for name, side in ours.items()
    ]
    ratios += [
        Ratio(f"{name} / usual way, by CPU time", mean(usual.cpu_seconds) / mean(side.cpu_seconds))
        for name, side in ours.items()
    ]
    return Benchmark("explore", figures, ratios, notes)


def _phases(side: Side) -> str:
    """ "recover 12 s, exercise 30 s"."""
    return ", ".join(f"{name} {seconds:.1f} s" for name, seconds in side.decider.seconds.items())

"""How much memory a recording of many GiB and its exploration take.

A program writes file after file of data in which no page occurs twice, and promises each. The files
are where disturbances keep theirs, which trees leave out: to read all of it back in every state
would measure an emulated processor, and nothing of ours depends on it.
"""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from crashsim.campaigns.benchmark import (
    Benchmark,
    Ratio,
    figure,
    forget_peak_resident,
    peak_resident_mb,
)
from crashsim.campaigns.options import Progress, RunOptions
from crashsim.campaigns.recording import open_target, record_target
from crashsim.campaigns.targets import CommandChoice, Target, choose_target
from crashsim.errors import UsageError
from crashsim.explore.engine import LocalEngine
from crashsim.explore.exploration import Exploration
from crashsim.explore.exploring import Budget, explore
from crashsim.faults.disturbances import DISTURBANCE_DIRECTORY
from crashsim.machines.filesystems import MIB, Filesystem, parse_filesystem
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.protocol import Machine
from crashsim.machines.qemu import QemuMachine
from crashsim.workloads.command import CommandWorkload
from crashsim.workloads.figures import figures
from crashsim.workloads.protocol import Step
from crashsim.workloads.registry import TargetOptions

T = TypeVar("T")

BOUND_MB = 300
FILE_BYTES = 64 * MIB
RECORD_SECONDS_MAX = 3600.0

# O_DIRECT spares the guest a copy of everything. The first byte of each page counts the pages of
# the buffer, the next four the buffers.
_WRITE = f"""
import mmap, os, subprocess, sys
directory, files = sys.argv[1], int(sys.argv[2])
pages = {MIB} // 4096
buffer = mmap.mmap(-1, {MIB})
buffer[:] = os.urandom({MIB})
buffer[0::4096] = bytes(range(pages))
os.makedirs(directory, exist_ok=True)
number = 0
for file in range(files):
    descriptor = os.open(
        os.path.join(directory, "bulk-%d" % file), os.O_WRONLY | os.O_CREAT | os.O_DIRECT
    )
    for _ in range({FILE_BYTES // MIB}):
        for place, byte in enumerate(number.to_bytes(4, "little"), 1):
            buffer[place::4096] = bytes([byte]) * pages
        os.write(descriptor, buffer)
        number += 1
    os.fsync(descriptor)
    os.close(descriptor)
    with open("done", "w") as done:
        done.write(str(file))
        done.flush()
        os.fsync(done.fileno())
    subprocess.run(["crashsim-mark", str(file)], check=True)
"""


def bench_memory(
    gibibytes: float, states: int, parent: Path | None, progress: Progress
) -> Benchmark:
    """Record that much, explore it with one guest, and see how much of it was ever resident.

    :param states: how many crash states to explore.
    :param parent: where the recording goes; it is removed again.

    Raises UsageError for more than fits a crash disk, InfrastructureError where no guest comes up.
    """
    files = max(1, round(gibibytes * 1024 * MIB / FILE_BYTES))
    filesystem = _large_ext4(files * FILE_BYTES)
    machine = QemuMachine()
    with tempfile.TemporaryDirectory(prefix="crashsim-bench-", dir=parent) as directory:
        target = _target(files)
        options = RunOptions(filesystem=filesystem, out=Path(directory))
        recording = Path(directory) / "recording"
        _, record_mb, record_seconds = _watched(
            lambda: record_target(target, options, machine, recording, progress)
        )
        exploration, explore_mb, explore_seconds = _watched(
            lambda: _explore(target, options, machine, recording, states, progress)
        )
        with open_target(target, options, recording) as recorded:
            counted = figures(recorded.log)
    return Benchmark(
        "memory",
        [
            figure("resident at most while recording", "MB", [record_mb]),
            figure("resident at most while exploring", "MB", [explore_mb]),
            figure("recording", "s", [record_seconds]),
            figure("opening and exploring", "s", [explore_seconds]),
        ],
        [Ratio(f"resident / {BOUND_MB} MB", max(record_mb, explore_mb) / BOUND_MB, "at most 1")],
        [
            f"{counted.bytes / (1 << 30):.2f} GiB in {counted.writes:,} writes, "
            f"{counted.flushes:,} flushes; {exploration.explored} states explored, "
            f"{exploration.distinct} of them distinct, "
            f"{len(exploration.inconclusive)} inconclusive",
            f"{machine.info.kind}, {machine.info.accel}: {machine.info.reason}",
        ],
    )


def _watched(act: Callable[[], T]) -> tuple[T, float, float]:
    """What `act` returns, the most that was resident meanwhile in MB, and the seconds it took."""
    forget_peak_resident()
    started = time.perf_counter()
    result = act()
    return result, peak_resident_mb(), time.perf_counter() - started


def _explore(
    target: Target,
    options: RunOptions,
    machine: Machine,
    recording: Path,
    states: int,
    progress: Progress,
) -> Exploration:
    with open_target(target, options, recording) as recorded:
        decider = recorded.decider()
        return explore(
            decider,
            LocalEngine(decider, lambda: recorded.recoverer(machine)),
            Budget(states=states),
            options.profile.atomic_unit_bytes,
            lambda decided, total, _kinds: progress("explore", decided, total),
        )


def _target(files: int) -> Target:
    argv = ("python3", "-c", _WRITE, DISTURBANCE_DIRECTORY, str(files))
    target = choose_target(
        None, None, list(argv), CommandChoice(check="test -e ."), TargetOptions()
    )
    step = Step("write", argv, timeout_seconds=RECORD_SECONDS_MAX)
    return replace(target, workload=CommandWorkload.of_steps([step]))


def _large_ext4(data_bytes: int) -> Filesystem:
    """An ext4 with room for so much data. Raises UsageError."""
    size = data_bytes + data_bytes // 8 + 512 * MIB
    if size > CRASH_DISK_BYTES:
        raise UsageError(
            f"{data_bytes >> 20} MiB of data do not fit a crash disk of "
            f"{CRASH_DISK_BYTES >> 20} MiB: give fewer --gibibytes"
        )
    extended = "nodiscard,lazy_itable_init=0,assume_storage_prezeroed=1"
    script = f'exec mkfs.ext4 -F -q -b 4096 -i 65536 -J size=16 -E {extended} "$0" {size // 4096}'
    return replace(parse_filesystem("ext4"), size_bytes=size, mkfs_argv=("sh", "-c", script))

"""How long it takes from the command line to the first shrunk finding.

The whole command in a process of its own, as its user runs it, on an image that is in the cache.
"""

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import msgspec

from crashsim.campaigns.benchmark import Benchmark, Meter, Ratio, figure
from crashsim.campaigns.options import Progress
from crashsim.campaigns.results import RunResult
from crashsim.errors import InfrastructureError, UsageError
from crashsim.machines.filesystems import Filesystem
from crashsim.machines.qemu import QemuMachine

BOUND_SECONDS = 60
_VIOLATION = 1


class NothingFound(InfrastructureError):
    """The run that was to be timed did not end with a finding."""


def bench_finding(
    rounds: int, example: Path, filesystem: Filesystem, progress: Progress
) -> Benchmark:
    """Time `crashsim run` on the naive writer of `examples/config-writer`.

    :param example: that directory.

    Raises UsageError where it is not there, NothingFound.
    """
    if not (example / "bin" / "config-write").is_file():
        raise UsageError(f"{example} is not examples/config-writer of crashsim's source: name it")
    machine = QemuMachine()
    with machine.start():
        pass  # the image and the snapshot are in the cache from here on
    meter = Meter()
    cpu_seconds = []
    results = []
    for number in range(rounds):
        progress("runs", number, rounds)
        before = _ended_children_cpu_seconds()
        with meter.measure():
            results.append(_run(example, filesystem.spelling))
        cpu_seconds.append(_ended_children_cpu_seconds() - before)
    progress("runs", rounds, rounds)
    info = machine.info
    return Benchmark(
        "finding",
        [
            figure("crashsim run, to its end", "s", meter.seconds),
            *(
                figure(f"of which {phase}", "s", [getattr(each.seconds, phase) for each in results])
                for phase in ("boot", "record", "explore", "shrink")
            ),
            figure("CPU time: the command and its guests", "s", cpu_seconds),
        ],
        [
            Ratio(
                f"time / {BOUND_SECONDS} s",
                median(meter.seconds) / BOUND_SECONDS,
                "at most 1, without KVM",
            )
        ],
        [
            f"config-write --naive on {filesystem.spelling}; {results[-1].states.explored} states, "
            f"{len(results[-1].findings)} shrunk findings, all defaults of `crashsim run`",
            f"{info.kind}, {info.accel}: {info.reason}",
        ],
    )


def _ended_children_cpu_seconds() -> float:
    """Processor time of the children that ended, and of theirs (getrusage(2))."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run(example: Path, filesystem: str) -> RunResult:
    with tempfile.TemporaryDirectory(prefix="crashsim-bench-") as directory:
        result = Path(directory) / "result.json"
        command = [
            *(sys.executable, "-m", "crashsim.cli", "run", "--fs", filesystem),
            *("--payload", str(example), "--check", "config-check"),
            *("--out", directory, "--json", str(result)),
            *("--", "config-write", "--naive"),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != _VIOLATION:
            raise NothingFound(
                f"{' '.join(command)} ended with {done.returncode}, not {_VIOLATION}: "
                f"{done.stderr.strip() or done.stdout.strip()}"
            )
        return msgspec.json.decode(result.read_bytes(), type=RunResult)

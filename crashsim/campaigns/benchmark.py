"""What a benchmark measures: rows of figures, the ratios among them, and what was asked of them."""

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from crashsim.campaigns.options import Progress


class Figure(msgspec.Struct, frozen=True):
    """One thing measured: the median, least and greatest of all rounds, in `unit`."""

    name: str
    unit: str
    median: float
    least: float
    greatest: float


class Ratio(msgspec.Struct, frozen=True):
    """How two figures compare, and the bound that the design sets on it, in words."""

    name: str
    value: float
    bound: str = ""


class Benchmark(msgspec.Struct, frozen=True):
    """A benchmark's result."""

    name: str
    figures: list[Figure]
    ratios: list[Ratio]
    notes: list[str] = []
    schema: str = "crashsim.bench/1"


def figure(name: str, unit: str, values: Sequence[float]) -> Figure:
    """Sum up the rounds of one figure."""
    return Figure(name, unit, statistics.median(values), min(values), max(values))


@dataclass(eq=False)
class Meter:
    """What each of many equal things took.

    :ivar seconds: on the wall.
    :ivar cpu_seconds: of processors, by this process and by its guests.
    :ivar own_seconds: of those, by this process alone.
    """

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    own_seconds: list[float] = field(default_factory=list)

    @contextmanager
    def measure(self, count: int = 1) -> Iterator[None]:
        """Measure `count` equal things that are done inside, unless that fails.

        Each gets an equal share: what was done side by side cannot be told apart.
        """
        cpu, own, started = cpu_seconds(), time.process_time(), time.perf_counter()
        yield
        self.seconds += [(time.perf_counter() - started) / count] * count
        self.own_seconds += [(time.process_time() - own) / count] * count
        self.cpu_seconds += [(cpu_seconds() - cpu) / count] * count


def alternate(sides: Sequence[Callable[[], None]], rounds: int, progress: Progress) -> None:
    """Let every side have its turn in each round, so that what else the host does hits all alike.

    Every other round goes through them backwards: none has always the same one before it.
    """
    for number in range(rounds):
        progress("rounds", number, rounds)
        for side in sides[:: -1 if number % 2 else 1]:
            side()
    progress("rounds", rounds, rounds)


def cpu_seconds() -> float:
    """Processor time of this process and of its children that run, its guests among them.

    Unlike the time on the wall it hardly depends on what else the host does. utime and stime of
    proc_pid_stat(5), which are those of all threads.
    """
    total = time.process_time()
    for listing in Path("/proc/self/task").glob("*/children"):
        total += sum(_cpu_seconds_of(pid) for pid in listing.read_text().split())
    return total


def _cpu_seconds_of(pid: str) -> float:
    try:
        text = Path("/proc", pid, "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return 0.0  # it ended meanwhile
    # The second field is a name in parentheses, and may have anything in it.
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_resident_mb() -> float:
    """The most memory that this process has had resident since `forget_peak_resident`, in 10^6 B.

    VmHWM of proc_pid_status(5). Not ru_maxrss of getrusage(2), which starts with what the process
    had before it executed this program.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == "VmHWM":
            return int(value.split()[0]) * 1024 / 1e6
    raise AssertionError("Linux gives VmHWM for every process that has memory")


def forget_peak_resident() -> None:
    """Let `peak_resident_mb` count from now on (proc_pid_clear_refs(5), value 5)."""
    Path("/proc/self/clear_refs").write_text("5")

"""What was measured of stores, and what it is summed up to."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from crashsim.campaigns.benchmark import Figure, Ratio, figure

DOMINATED = 0.5
"""Flushes dominate where at least this part of git's idle seconds is spent waiting for them."""

AS_GIT = "at most 2 where flushes dominate"
BELOW_DULWICH = "below 1"
AS_BATCH = "at most 1.2"
METHODS_COMPARED = ("impl, paired-syncfs", "impl, batch")
COMPARED_BY = ("add", "commit", "stash", "update-ref")


@dataclass(frozen=True, slots=True)
class Where:
    """What was measured: an operation of a program in a place."""

    place: str
    operation: str
    program: str

    @property
    def text(self) -> str:
        """As figures name it."""
        return f"{self.place}, {self.operation}: {self.program}"


@dataclass(frozen=True, slots=True)
class Taken:
    """One command.

    :ivar seconds: from its start to its end, by the clock of the guest.
    :ivar cpu_seconds: of the host's processors, by the guest and by the crash disk.
    :ivar flushes: FLUSH requests that the disk got meanwhile.
    """

    seconds: float
    cpu_seconds: float
    flushes: int = 0


@dataclass
class StoreTimes:
    """All commands, in the order of the first round.

    :ivar flush_seconds: place -> what a FLUSH takes there, where it is not nothing.
    """

    flush_seconds: Mapping[str, float]
    taken: dict[Where, list[Taken]] = field(default_factory=lambda: defaultdict(list))

    def add(self, where: Where, taken: Taken) -> None:
        """Note one command."""
        self.taken[where].append(taken)

    def seconds(self, where: Where) -> float:
        """The median."""
        return median(each.seconds for each in self.taken[where])

    def cpu_seconds(self, where: Where) -> float:
        """The median."""
        return median(each.cpu_seconds for each in self.taken[where])

    def waiting_seconds(self, where: Where) -> float:
        """The median of what its flushes take."""
        flushes = median(each.flushes for each in self.taken[where])
        return flushes * self.flush_seconds.get(where.place, 0.0)

    def idle_seconds(self, where: Where) -> float:
        """What it would take if nobody else wanted the processors: its CPU time, and its flushes.

        Unlike the time on the clock this hardly depends on what else the host does.
        """
        return self.cpu_seconds(where) + self.waiting_seconds(where)

    def figures(self) -> Iterator[Figure]:
        """Seconds of every command, by the clock and of processors; the flushes where there are."""
        for where, taken in self.taken.items():
            yield figure(where.text, "s", [each.seconds for each in taken])
        for where, taken in self.taken.items():
            yield figure(f"CPU time: {where.text}", "s", [each.cpu_seconds for each in taken])
        for where, taken in self.taken.items():
            if any(each.flushes for each in taken):
                yield figure(where.text, "flushes", [float(each.flushes) for each in taken])

    def ratios(self, slow_place: str) -> Iterator[Ratio]:
        """The store against dulwich and git, place by place; its methods in `slow_place`."""
        stores = [where for where in self.taken if where.program == "impl"]
        for where in stores:
            yield from self._ratios(where, "dulwich", BELOW_DULWICH)
        for where in stores:
            git = replace(where, program="git")
            part = self.waiting_seconds(git) / self.idle_seconds(git)
            note = f"; {part:.0%} of git's are flushes" if part else ""
            yield from self._ratios(where, "git", AS_GIT if part >= DOMINATED else "", note)
        ours, theirs = METHODS_COMPARED
        for operation in COMPARED_BY:
            yield from self._ratios(Where(slow_place, operation, ours), theirs, AS_BATCH)

    def _ratios(self, where: Where, other: str, bound: str, note: str = "") -> Iterator[Ratio]:
        than = replace(where, program=other)
        name = f"{where.text} / {other}"
        yield Ratio(name, self.seconds(where) / self.seconds(than), bound)
        idle = self.idle_seconds(where) / self.idle_seconds(than)
        yield Ratio(f"{name}, by CPU time and flushes{note}", idle, bound)


def missed(ratios: Sequence[Ratio]) -> list[Ratio]:
    """Those that are above their bound."""
    most = {AS_GIT: 2.0, BELOW_DULWICH: 1.0, AS_BATCH: 1.2}
    return [ratio for ratio in ratios if ratio.bound and ratio.value > most[ratio.bound]]

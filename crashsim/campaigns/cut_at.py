"""When a life ends: the cut, and what of the disk's volatile cache is left."""

from dataclasses import dataclass
from enum import StrEnum
from random import Random

from crashsim.disk.log import Log
from crashsim.disk.request import Operation
from crashsim.disk.state import CrashState
from crashsim.errors import UsageError
from crashsim.explore.strategies import STRATEGIES, CutView, random_subsets
from crashsim.explore.timeline import Timeline
from crashsim.workloads.marks import END, START, is_reserved, step_name

PROMISE_SHARE = 0.25
"""How many of the seeded cuts come right after the last step's promise: there, what was promised
last can be lost. All others are anywhere in that step."""
RECOVERY_SHARE = 0.1
"""How many of the seeded cuts come while the cut before is being recovered from."""
FULLEST_OF = 6
"""Of so many moments half of the seeded cuts take the one at which most may be lost."""
SUBSET_SHARE = 0.5
"""How often the writes that survive are chosen one by one; else by the strategies of exploring."""


class BadCut(UsageError):
    """`--cut-at` with something that no life can be cut at."""


class Where(StrEnum):
    """What a cut is counted by."""

    MOMENT = "moment"
    MARK = "mark"
    WRITE = "write"
    FLUSH = "flush"


@dataclass(frozen=True, slots=True)
class CutAt:
    """Where every life is cut.

    :ivar name: for `mark`: a kind of step; the cut comes right after its promise.
    :ivar count: for `write` and `flush`: the how manieth of the life, set-up and recovery not
        counted; the cut comes when it has arrived and not been answered.
    """

    where: Where = Where.MOMENT
    name: str = ""
    count: int = 0

    @property
    def spelling(self) -> str:
        """As the user writes it."""
        value = self.name or (str(self.count) if self.count else "")
        return f"{self.where}:{value}" if value else str(self.where)


def parse_cut_at(text: str | None) -> CutAt:
    """Read `--cut-at`: None or `moment`, `mark:NAME`, `write:N`, `flush:N`. Raises BadCut."""
    where, colon, value = (text or Where.MOMENT).partition(":")
    if where == Where.MOMENT and not colon:
        return CutAt()
    if where == Where.MARK and value:
        return CutAt(Where.MARK, name=value)
    if where in (Where.WRITE, Where.FLUSH) and value.isascii() and value.isdigit() and int(value):
        return CutAt(Where(where), count=int(value))
    raise BadCut(f"--cut-at takes moment, mark:NAME, write:N or flush:N, not {text!r}")


def requests_reached(log: Log, cut_at: CutAt) -> int | None:
    """The position right after the counted request has arrived; None before."""
    start = next((mark.position for mark in log.marks if mark.text == START), 0)
    requests = log.requests
    is_flush = requests.operation == Operation.FLUSH
    counted = is_flush if cut_at.where is Where.FLUSH else ~is_flush
    positions = requests.submitted_at[counted & (requests.submitted_at > start)]
    return int(positions[cut_at.count - 1]) + 1 if len(positions) >= cut_at.count else None


def cut_position(
    log: Log, timeline: Timeline, cut_at: CutAt, chooser: Random, *, after_recovery: bool = False
) -> int:
    """Where the power is cut in the log of a life, which may go on beyond.

    A life that has no such request or mark is cut at its end.

    :param after_recovery: not while the last cut is recovered from, where there is no step.
    """
    end = next((mark.position for mark in log.marks if mark.text == END), log.event_count)
    steps = [mark.position for mark in log.marks if step_name(mark.text) is not None]
    promises = [mark.position + 1 for mark in log.marks if not is_reserved(mark.text)]
    if cut_at.where in (Where.WRITE, Where.FLUSH):
        reached = requests_reached(log, cut_at)
        return min(end, end if reached is None else reached)
    if cut_at.where is Where.MARK or (not steps and after_recovery):
        return promises[-1]
    if steps and chooser.random() < PROMISE_SHARE:
        return promises[-1]
    first = steps[-1] if steps else promises[0]
    submitted = log.requests.submitted_at[log.requests.changes_media] + 1
    inside = submitted[(submitted > first) & (submitted <= end)]
    # Only a write's arrival changes what can be left.
    if not len(inside):
        return end
    moments: list[int] = chooser.choices(inside.tolist(), k=chooser.choice((1, FULLEST_OF)))
    return max(moments, key=lambda cut: len(timeline.pending_rows(cut)))


def survivor_state(
    timeline: Timeline, cut: int, atomic_unit_bytes: int, chooser: Random
) -> CrashState:
    """A legal crash state at `cut`, chosen at random."""
    view = CutView(timeline, cut, atomic_unit_bytes)
    if chooser.random() < SUBSET_SHARE:
        return next(random_subsets(view, chooser))
    count = len(view.pending)
    fitting = [each for each in STRATEGIES if each.least_pending <= count <= each.most_pending]
    strategy = chooser.choices(fitting, [each.weight for each in fitting])[0]
    return next(strategy.generate(view, chooser), CrashState(cut))

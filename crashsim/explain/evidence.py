"""Questions to a survey about one crash state: what reached the disk, and by what."""

from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

import numpy as np

from crashsim.disk.log import NEVER
from crashsim.disk.state import CrashState
from crashsim.explain.blocks import Role
from crashsim.explain.survey import Survey
from crashsim.explain.trail import Carrier


class Fate(Enum):
    """What became of a write in a crash state."""

    DURABLE = "durable"
    KEPT = "kept"
    TORN = "torn"
    DROPPED = "dropped"
    NOT_SENT = "not sent"


@dataclass(frozen=True, slots=True)
class Commit:
    """What makes a carrier count after recovery.

    :ivar write: the write that ends the transaction; the carrier's own where it needs none.
    :ivar transaction: the filesystem's number for it; empty where it has none.
    :ivar writes: the writes that have to be there: all of a journal's transaction; of others the
        carrier and the one that ends it.
    :ivar what: the ending block, in words.
    """

    write: int
    transaction: str
    writes: tuple[int, ...]
    what: str


@dataclass(frozen=True)
class Evidence:
    """A survey and a crash state of its log."""

    survey: Survey
    state: CrashState
    _commits: dict[tuple[int, str], Commit | None] = field(default_factory=dict, repr=False)

    def fate(self, write: int) -> Fate:
        """What became of a write."""
        requests = self.survey.log.requests
        if int(requests.submitted_at[write]) >= self.state.cut:
            return Fate.NOT_SENT
        if write in self.state.dropped:
            return Fate.DROPPED
        if any(torn.write == write for torn in self.state.torn):
            return Fate.TORN
        return Fate.DURABLE if int(self.survey.durable[write]) <= self.state.cut else Fate.KEPT

    def on_disk(self, write: int) -> bool:
        """Whether all of a write is in the state's image (unless something overwrote it)."""
        return self.fate(write) in (Fate.DURABLE, Fate.KEPT)

    # -- time

    @cached_property
    def has_times(self) -> bool:
        """Whether the log knows when anything happened: one of dm-log-writes does not."""
        return bool(self.survey.log.requests.submitted_ns.any())

    def ms(self, time_ns: int) -> float:
        """Milliseconds from the exploration's start to a moment of the host's clock."""
        return (time_ns - self._start_ns) / 1e6

    def submitted_ms(self, write: int) -> float:
        """When a write arrived at the disk, in milliseconds since the exploration's start."""
        return self.ms(int(self.survey.log.requests.submitted_ns[write]))

    @cached_property
    def cut_ms(self) -> float:
        """When the last event before the cut happened, likewise."""
        log, last = self.survey.log, self.state.cut - 1
        times = [mark.time_ns for mark in log.marks if mark.position == last]
        for positions, column in (
            (log.requests.submitted_at, log.requests.submitted_ns),
            (log.requests.completed_at, log.requests.completed_ns),
        ):
            times.extend(column[np.flatnonzero(positions == last)].tolist())
        return self.ms(times[0]) if times else 0.0

    @cached_property
    def _start_ns(self) -> int:
        marks = self.survey.log.marks
        at_start = [mark.time_ns for mark in marks if mark.position == self.survey.start]
        return at_start[0] if at_start else int(self.survey.log.requests.submitted_ns[:1].sum())

    # -- transactions

    def commit(self, carrier: Carrier) -> Commit | None:
        """What makes a carrier count; None where the log ends before that was written."""
        key = carrier.write, carrier.block.transaction
        if key not in self._commits:
            self._commits[key] = self._find_commit(carrier)
        return self._commits[key]

    def _find_commit(self, carrier: Carrier) -> Commit | None:
        block = carrier.block
        at_home = block.role is Role.METADATA and not block.transaction
        if block.role is Role.FSYNC or (at_home and self.survey.layout.fstype in _IN_PLACE):
            return Commit(carrier.write, block.transaction, (carrier.write,), block.what)
        members: list[int] = []
        for write in self.survey.writes.values():
            here = [
                each
                for each in write.blocks
                if each.transaction and each.transaction == (block.transaction or each.transaction)
            ]
            if here and block.home is not None:
                members.append(write.number)
            for each in here:
                if each.role is Role.COMMIT and write.number >= carrier.write:
                    members = sorted({*members, carrier.write, write.number})
                    return Commit(write.number, each.transaction, tuple(members), each.what)
        return None

    def counts(self, carrier: Carrier) -> bool:
        """Whether recovery of this state finds what the carrier says."""
        commit = self.commit(carrier)
        if commit is None or not all(map(self.on_disk, (carrier.write, *commit.writes))):
            return False
        return not self._log_ends_before(commit.write)

    def _log_ends_before(self, write: int) -> bool:
        """Whether a part of the log before `write` is lost: it is replayed up to the first gap."""
        lost = {*self.state.dropped, *(torn.write for torn in self.state.torn)}
        return any(
            block.role in _LOG and number < write
            for number in lost
            if number in self.survey.writes
            for block in self.survey.writes[number].blocks
        )

    def durable_at(self, write: int) -> int | None:
        """The event since which a write is durable; None if it never is."""
        position = int(self.survey.durable[write])
        return None if position == NEVER else position - 1


_LOG = frozenset({Role.COMMIT, Role.JOURNAL})
_IN_PLACE = frozenset({"ext4", "xfs"})
"""Filesystems that write metadata to its one home. The others write it anew elsewhere, and it
counts once something that counts points to it."""

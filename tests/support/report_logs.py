"""Logs as a filesystem would send them, written with the real log writer."""

import random
from dataclasses import dataclass, field
from pathlib import Path

from crashsim.campaigns.results import Finding, WriteNote
from crashsim.disk.log import Log
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.request import Operation, Request
from crashsim.workloads.marks import END, START, step_mark
from tests.support.report_samples import finding

DISK_BYTES = 16 << 30
JOURNAL, INODES, DIRECTORY, DATA = 268_435_456, 1_114_112, 37_761_024, 536_903_680


@dataclass
class Story:
    """A log in the making, with a note for every write."""

    writer: LogWriter
    notes: list[WriteNote] = field(default_factory=list)

    def write(
        self, offset: int, length: int, what: str, *, fua: bool = False, done: bool = True
    ) -> int:
        """A write; answered at once unless `done` is False."""
        number = self.writer.submit(
            Request(Operation.WRITE, offset, length, fua, bytes([len(self.notes) % 251]) * length)
        )
        if what:
            self.notes.append(WriteNote(number, offset, length, what))
        if done:
            self.writer.complete(number)
        return number

    def flush(self, *, error: int = 0) -> int:
        """A flush, answered at once."""
        number = self.writer.submit(Request(Operation.FLUSH))
        self.writer.complete(number, error)
        return number


def ext4_story(directory: Path, *, hostile: str = "") -> tuple[Log, Finding]:
    """Two commits on ext4; an unrelated fsync carries the second's rename, but not its data."""
    with LogWriter(directory, DISK_BYTES) as writer:
        story = Story(writer)
        story.write(0, 4096, "superblock")
        story.write(INODES, 16384, "inode table")
        story.flush()
        writer.mark(START)
        for commit in (1, 2):
            writer.mark(step_mark(f"commit {commit}"))
            base = DATA + commit * (1 << 20)
            lost = [
                story.write(base + 4096 * at, 4096, f"data of .git/objects/{name}{hostile}")
                for at, name in enumerate(("1f/3a9c41d2e0", "77/01ab92ffe1", "c4/5be0d17a22"))
            ]
            story.write(DIRECTORY + 4096 * commit, 4096, "directory .git/objects/1f")
            if commit == 1:
                story.flush()
            story.write(JOURNAL + 65536 * commit, 28672, "journal: descriptor and 6 blocks")
            story.flush()
            story.write(JOURNAL + 65536 * commit + 28672, 4096, "journal: commit", fua=True)
            writer.mark(f'{{"git":"HEAD","is":"{commit}f3a9c41"}}{hostile}')
            story.write(INODES + 4096 * commit, 4096, "inode table")
        cut = writer.event_count
        last = story.write(INODES + 8192, 4096, "inode table", done=False)
        story.flush()
        writer.complete(last)
        writer.mark(END)
    log = Log.open(directory)
    # The flush before the journal's commit made the data durable: it is lost from before that.
    found = finding(
        cut=cut_before_flush(log, cut),
        dropped=lost[:1],
        needed=lost[:1],
        writes=story.notes,
        subject=".git/objects/1f/3a9c41d2e0",
    )
    return log, found


def cut_before_flush(log: Log, cut: int) -> int:
    """The position at which the last flush before `cut` had been submitted, not yet answered."""
    is_flush = (log.requests.operation == Operation.FLUSH) & (log.requests.submitted_at < cut)
    return int(log.requests.submitted_at[is_flush][-1]) + 1


def busy_log(directory: Path, writes: int, seed: int = 7) -> tuple[Log, Finding]:
    """A long log: many writes in flight, flushes, marks now and then; the last write is lost."""
    random_source = random.Random(seed)
    with LogWriter(directory, DISK_BYTES) as writer:
        story = Story(writer)
        in_flight: list[int] = []
        for count in range(writes):
            area = random_source.choice((INODES, DIRECTORY, JOURNAL, DATA, DATA + (1 << 28)))
            offset = area + 4096 * random_source.randrange(2000)
            in_flight.append(
                story.write(offset, 4096 * random_source.choice((1, 1, 2, 8)), "", done=False)
            )
            if len(in_flight) > random_source.randrange(1, 12):
                writer.complete(in_flight.pop(0))
            if count % 40 == 39:
                story.flush()
            if count % 500 == 250:
                writer.mark(f"promise {count}")
        last = story.write(DATA, 4096, "data of .git/refs/heads/main")
        cut = writer.event_count
        for number in in_flight:
            writer.complete(number)
        for _ in range(20):
            story.write(DATA + (1 << 20), 4096, "")
        story.flush()
    return Log.open(directory), finding(
        cut=cut, dropped=[last], needed=[last], writes=story.notes, id="busy"
    )

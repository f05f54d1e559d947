"""A tiny crash-consistent key-value store on pages, as it records and as it recovers.

It is to explore/ what a filesystem is to the real thing, at a few microseconds a recovery: one
write-ahead structure, recovered by reading pages, of which the content decides which are read next.

Layout, in pages: 0 and 1 superblocks (the valid one with the higher sequence number counts), then
`JOURNAL_PAGES` of commit records, then two pages for each value, used once.

A put writes the value, flushes, writes the commit record that names it, flushes, and promises
`KEY=NUMBER`. Every `CHECKPOINT_PUTS` puts the other superblock is rewritten. A `Flaw` leaves one
of these precautions out.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache
from pathlib import Path

import xxhash

from crashsim.disk.log import LogWriter
from crashsim.disk.request import PAGE_BYTES, Operation, Request
from crashsim.machines.protocol import Recovery
from crashsim.machines.tree import Node, NodeKind, Tree
from crashsim.workloads.marks import END, START

JOURNAL_FIRST = 2
JOURNAL_PAGES = 24
VALUE_FIRST = JOURNAL_FIRST + JOURNAL_PAGES
VALUE_PAGES = 2
DISK_PAGES = VALUE_FIRST + VALUE_PAGES * JOURNAL_PAGES + 1
NOISE_PAGE = DISK_PAGES - 1
CHECKPOINT_PUTS = 3

ReadPage = Callable[[int], bytes]


class Flaw(Enum):
    """What a store may do wrong."""

    MISSING_FLUSH = auto()  # none between the value and its commit record
    COMMIT_FIRST = auto()  # the commit record is submitted before the value
    FLUSH_IN_FLIGHT = auto()  # the flush is submitted before the value's write completed
    EARLY_PROMISE = auto()  # the promise is made before the commit record is flushed
    ONE_SUPERBLOCK = auto()  # the superblock is rewritten in place


@dataclass(frozen=True)
class Put:
    """One put.

    :ivar noise: writes by an unrelated program beside it, which nobody waits for or flushes.
    :ivar zeroes: the value's second page is zeroed by a WRITE_ZEROES of its own.
    """

    key: int
    noise: int = 0
    zeroes: bool = False


@dataclass(eq=False)
class ToyStore:
    """The store while it runs: turns puts into requests of a log."""

    writer: LogWriter
    flaw: Flaw | None = None
    puts: int = 0
    checkpoints: int = 0
    noise: int = 0
    in_flight: list[int] = field(default_factory=list)

    def format(self) -> None:
        """Make an empty store, durably."""
        self._write(0, _sealed({"sequence": 0, "zero": "0" * 1500}))
        self._settle()
        self._flush()
        self.writer.mark(START)

    def put(self, put: Put) -> None:
        """Store a fresh value under a key and promise it."""
        number = self.puts
        self.puts += 1
        value_page = VALUE_FIRST + VALUE_PAGES * number
        record = _sealed({"number": number, "key": put.key, "page": value_page})
        if self.flaw is Flaw.COMMIT_FIRST:
            self._write(JOURNAL_FIRST + number, record)
        for _ in range(put.noise):
            self.noise += 1
            self._write(NOISE_PAGE, b"noise %d" % self.noise)
        self._write_value(value_page, number, zeroes=put.zeroes)
        if self.flaw is Flaw.FLUSH_IN_FLIGHT:
            self._flush()
        self._settle()
        if self.flaw not in (Flaw.MISSING_FLUSH, Flaw.COMMIT_FIRST, Flaw.FLUSH_IN_FLIGHT):
            self._flush()
        if self.flaw is not Flaw.COMMIT_FIRST:
            self._write(JOURNAL_FIRST + number, record)
            self._settle()
        if self.flaw is not Flaw.EARLY_PROMISE:
            self._flush()
        self.writer.mark(f"{put.key}={number}")
        if self.puts % CHECKPOINT_PUTS == 0:
            self._checkpoint()

    def finish(self) -> None:
        """End the recording as the recorder does: everything is synced at last."""
        self.writer.mark(END)
        self._settle()
        self._flush()

    def _checkpoint(self) -> None:
        self.checkpoints += 1
        page = 0 if self.flaw is Flaw.ONE_SUPERBLOCK else self.checkpoints % 2
        self._write(page, _sealed({"sequence": self.checkpoints, "zero": f"{self.puts}" * 1500}))
        self._settle()
        self._flush()

    def _write_value(self, page: int, number: int, *, zeroes: bool) -> None:
        content = _value(number)
        if zeroes:
            self._write(page, content[:PAGE_BYTES])
            place, length = (page + 1) * PAGE_BYTES, PAGE_BYTES
            self._submit(Request(Operation.WRITE_ZEROES, place, length))
        self._write(page, content)

    def _write(self, page: int, content: bytes) -> None:
        data = content.ljust(-(-len(content) // PAGE_BYTES) * PAGE_BYTES, b"\0")
        self._submit(Request(Operation.WRITE, page * PAGE_BYTES, len(data), data=data))

    def _submit(self, request: Request) -> None:
        self.in_flight.append(self.writer.submit(request))

    def _settle(self) -> None:
        """Wait until everything that was submitted has completed."""
        for number in self.in_flight:
            self.writer.complete(number)
        self.in_flight.clear()

    def _flush(self) -> None:
        self.writer.complete(self.writer.submit(Request(Operation.FLUSH)))


def record(directory: Path, puts: Sequence[Put], flaw: Flaw | None = None) -> None:
    """Record a run of the store into `directory`."""
    with LogWriter(directory, DISK_PAGES * PAGE_BYTES) as writer:
        store = ToyStore(writer, flaw)
        store.format()
        for put in puts:
            store.put(put)
        store.finish()


def recover(read_page: ReadPage) -> Recovery:
    """Mount the store: find its superblock, replay its journal, read every value."""
    superblocks = [block for block in map(_unsealed, (read_page(0), read_page(1))) if block]
    if not superblocks:
        return Recovery(None, "EUCLEAN")
    values: dict[str, bytes] = {}
    for number in range(JOURNAL_PAGES):
        entry = _unsealed(read_page(JOURNAL_FIRST + number))
        if entry is None or entry["number"] != number:
            break
        page = int(entry["page"])
        values[str(entry["key"])] = read_page(page) + read_page(page + 1)
    return Recovery(_tree(values))


def is_value(content: bytes, number: int) -> bool:
    """Whether a file holds the whole value of put `number`."""
    return content == _value(number).ljust(VALUE_PAGES * PAGE_BYTES, b"\0")


def value_number(content: bytes) -> int | None:
    """The put of which `content` is the whole value; None if it is of none."""
    head = content[:8]
    number = int(head) if head.isdigit() else -1
    return number if number >= 0 and is_value(content, number) else None


@cache
def _value(number: int) -> bytes:
    return b"%08d" % number + bytes((number + index) % 251 + 1 for index in range(6000))


def _tree(values: dict[str, bytes]) -> Tree:
    nodes: dict[str, Node] = {}
    contents: dict[str, bytes] = {}
    for key, content in sorted(values.items()):
        digest = xxhash.xxh3_128_hexdigest(content)
        nodes[key] = Node(NodeKind.FILE, 0o644, len(content), digest)
        contents[digest] = content
    return Tree(nodes, contents)


def _sealed(content: dict[str, object]) -> bytes:
    body = json.dumps(content).encode()
    return b"%16x" % xxhash.xxh3_64_intdigest(body) + body


def _unsealed(page: bytes) -> dict[str, int] | None:
    """What was sealed, or None where the page does not hold it whole."""
    page = page.rstrip(b"\0")
    if page[:16] != b"%16x" % xxhash.xxh3_64_intdigest(page[16:]):
        return None
    content: dict[str, int] = json.loads(page[16:])
    return content

"""Every write of a recording in words: one pass over the log, made once for all findings."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log
from crashsim.disk.request import SECTOR_BYTES, Operation
from crashsim.disk.state import CrashState
from crashsim.explain.blocks import Block, Layout, Role
from crashsim.explain.files import KnownFiles, Piece, Snapshot
from crashsim.explain.layouts import SeveralDisks, read_layout
from crashsim.explain.unrelated import NOTHING, UnrelatedData
from crashsim.workloads.marks import START

_NAMES_SHOWN = 2
_PARTS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class SurveyedWrite:
    """A write of the log and what it holds.

    :ivar number: the request's number in the log.
    """

    number: int
    offset_bytes: int
    length_bytes: int
    operation: Operation
    blocks: tuple[Block, ...] = ()
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Survey:
    """All writes from the exploration's start on.

    :ivar start: the position of the exploration's start.
    :ivar writes: by request number, in the order of submission.
    :ivar durable: `durable_positions` of the log.
    """

    log: Log
    layout: Layout
    files: KnownFiles
    start: int
    writes: dict[int, SurveyedWrite]
    durable: npt.NDArray[np.int64]
    _holders: dict[tuple[str, int], list[int]] = field(repr=False)

    @property
    def names_blocks(self) -> bool:
        """Whether what the filesystem wrote can be told, and so how a file came to be as it is."""
        return self.log.disks == 1

    def holders(self, digest: str, page: int) -> Sequence[int]:
        """The writes that hold a page of a content, in the order of submission."""
        return self._holders.get((digest, page), ())

    def metadata(self, since: int = 0) -> Iterator[tuple[SurveyedWrite, Block, bytes]]:
        """(write, block, its bytes) of every block that may be metadata, in order.

        :param since: leave out the requests before that one.
        """
        for write in self.writes.values():
            if write.number < since or all(block.role is Role.DATA for block in write.blocks):
                continue
            payload = self.log.payload(write.number)
            for block in write.blocks:
                if block.role is not Role.DATA:
                    yield write, block, payload[block.start : block.start + block.length_bytes]

    def words(self, number: int, path: str = "", unrelated: UnrelatedData = NOTHING) -> str:
        """What a write holds: `data of repo/f3.txt (page 1 of 1)`, `journal commit block 17`.

        :param path: the file that is talked about: its data comes first.
        :param unrelated: what the recording's disturbances wrote.
        """
        write = self.writes.get(number)
        if write is None:
            return "a write from before the exploration's start"
        if write.operation is not Operation.WRITE:
            return write.operation.name.lower().replace("_", " ")
        if not write.pieces and all(block.role is Role.UNKNOWN for block in write.blocks):
            name = unrelated.name(self.log.payload(number))
            if name:
                return name
        pieces = sorted(write.pieces, key=lambda each: path not in self.files.names(each.digest))
        parts = [self._piece_words(piece) for piece in pieces]
        parts += [block.what for block in write.blocks if block.what]
        parts = list(dict.fromkeys(parts))
        more = f"; and {len(parts) - _PARTS_SHOWN} more" if len(parts) > _PARTS_SHOWN else ""
        return "; ".join(parts[:_PARTS_SHOWN]) + more

    def _piece_words(self, piece: Piece) -> str:
        names = self.files.names(piece.digest)
        shown = " or ".join(names[:_NAMES_SHOWN])
        more = f" or {len(names) - _NAMES_SHOWN} others alike" if len(names) > _NAMES_SHOWN else ""
        first, last = piece.pages.start + 1, piece.pages.stop
        pages = f"page {first}" if first == last else f"pages {first} to {last}"
        return f"data of {shown}{more} ({pages} of {piece.page_count})"


def start_of(log: Log) -> int:
    """The position of the START mark; 0 where there is none."""
    return next((mark.position for mark in log.marks if mark.text == START), 0)


def survey(index: ImageIndex, fstype: str, snapshots: Sequence[Snapshot]) -> Survey:
    """Name every write after the START mark.

    :param index: of the recording's log.
    :param fstype: the filesystem on it, as mount(2) takes it.
    :param snapshots: the trees after each step, with contents as far as they were collected.

    Raises NoLayout where the disk at the START mark holds no such filesystem.
    """
    log = index.log
    start = start_of(log)
    base = CrashState(start)

    def read(offset_bytes: int, length_bytes: int) -> bytes:
        first = offset_bytes - offset_bytes % SECTOR_BYTES
        end = min(-(-(offset_bytes + length_bytes) // SECTOR_BYTES) * SECTOR_BYTES, log.size_bytes)
        if first >= end:
            return b""
        data = index.read(base, first, end - first)
        return data[offset_bytes - first : offset_bytes - first + length_bytes]

    one = log.disks == 1
    layout: Layout = read_layout(fstype, read) if one else SeveralDisks(fstype, log.disk_bytes)
    files = KnownFiles(snapshots)
    writes: dict[int, SurveyedWrite] = {}
    holders: dict[tuple[str, int], list[int]] = defaultdict(list)
    requests = log.requests
    for number in range(log.submitted_before(start), len(requests)):
        operation = Operation(int(requests.operation[number]))
        if operation is Operation.FLUSH:
            continue
        offset, length = int(requests.offset_bytes[number]), int(requests.length_bytes[number])
        write = SurveyedWrite(number, offset, length, operation)
        if operation is Operation.WRITE:
            write = _surveyed(write, log.payload(number), layout, files)
        writes[number] = write
        for piece in write.pieces:
            for page in piece.pages:
                holders[piece.digest, page].append(number)
    return Survey(log, layout, files, start, writes, index.durable, dict(holders))


def _surveyed(
    write: SurveyedWrite, data: bytes, layout: Layout, files: KnownFiles
) -> SurveyedWrite:
    blocks = layout.blocks(write.offset_bytes, data)
    found: list[Piece] = []
    if any(block.role is Role.UNKNOWN for block in blocks):
        found = files.find(data)
    return SurveyedWrite(
        write.number,
        write.offset_bytes,
        write.length_bytes,
        write.operation,
        tuple(_without_data(block, found) for block in blocks),
        tuple(found),
    )


def _without_data(block: Block, found: list[Piece]) -> Block:
    """An unknown block that known contents fill is data."""
    if block.role is not Role.UNKNOWN:
        return block
    covered = sum(
        max(0, min(end, block.start + block.length_bytes) - max(piece.start, block.start))
        for piece in found
        for end in (piece.start + len(piece.pages) * 4096,)
    )
    if covered < block.length_bytes:
        return block
    return Block(block.start, block.length_bytes, Role.DATA, "")

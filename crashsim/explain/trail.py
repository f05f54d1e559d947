"""Where one content of one file is in a log: its data, its inode, its directory entry.

The chain is followed by what the writes hold: a page of the content is at some place of the disk,
an inode has that place among its extents, a directory entry has that inode's number and the name.
"""

import posixpath
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from crashsim.disk.request import PAGE_BYTES
from crashsim.explain.blocks import Block, Role
from crashsim.explain.files import Version
from crashsim.explain.survey import Survey, SurveyedWrite
from crashsim.workloads.marks import step_name


@dataclass(frozen=True, slots=True)
class Carrier:
    """A block that carries a fact about a file: its directory entry, its inode, its content.

    :ivar write: the request's number.
    :ivar size_bytes: the file's size by the same block; None where it does not say.
    """

    write: int
    block: Block
    inode: int
    size_bytes: int | None = None


@dataclass(frozen=True)
class Trail:
    """What the log holds of one version of a file.

    :ivar data: the first writes that hold its pages.
    :ivar pages_missing: how many of its pages no write holds.
    :ivar inline: the blocks of metadata that hold the whole content themselves.
    :ivar inodes: the blocks that say where the content is.
    :ivar entries: the blocks with its directory entry, in order.
    :ivar unclear: why the entries could not be told, in words; empty where they could.
    """

    data: Sequence[int]
    pages_missing: int
    inline: Sequence[Carrier]
    inodes: Sequence[Carrier]
    entries: Sequence[Carrier]
    unclear: str = ""


def follow(survey: Survey, version: Version) -> Trail:
    """Find a version's writes. Only writes since the step that made it began are considered."""
    since = _first_write(survey, version.step)
    data, missing = _data(survey, version, since)
    inline = [] if data else _inline(survey, version, since)
    name = posixpath.basename(version.path)
    alike = [
        other
        for other in survey.files.names(version.digest)
        if other != version.path and posixpath.basename(other) == name
    ]
    inodes = inline or _inodes(survey, version, data, since)
    if alike:
        unclear = f"`{alike[0]}` has the same name and content"
        return Trail(data, missing, inline, inodes, (), unclear)
    if not inodes:
        unclear = "its inode could not be told from the log"
        return Trail(data, missing, inline, inodes, (), unclear)
    wanted = {carrier.inode for carrier in inodes}
    entries, hidden = _entries(survey, name, wanted, since, _next_version(survey, version))
    unclear = "an older file of that name had the same inode number" if hidden else ""
    named = {carrier.inode for carrier in entries}
    # Places of the disk are used again: an inode that never had that name is another file's.
    inodes = [carrier for carrier in inodes if not named or carrier.inode in named]
    return Trail(data, missing, inline, inodes, entries, unclear)


def _first_write(survey: Survey, step: str) -> int:
    """The number of the first request after a step began; the first of all for the set-up."""
    for mark in survey.log.marks:
        if step_name(mark.text) == step:
            return survey.log.submitted_before(mark.position)
    return 0


def _next_version(survey: Survey, version: Version) -> int:
    """The number of the first request after the step of the path's next version began."""
    later = list(survey.files.paths[version.path])
    later = later[later.index(version) + 1 :]
    return _first_write(survey, later[0].step) if later else len(survey.log.requests)


def _data(survey: Survey, version: Version, since: int) -> tuple[list[int], int]:
    writes: list[int] = []
    missing = 0
    for page in range(-(-version.size_bytes // PAGE_BYTES)):
        holders = [write for write in survey.holders(version.digest, page) if write >= since]
        if not holders:
            missing += 1
        elif holders[0] not in writes:
            writes.append(holders[0])
    return writes, missing


def _inodes(survey: Survey, version: Version, data: Sequence[int], since: int) -> list[Carrier]:
    """The inodes that have the version's first found page at its place."""
    for number in data[:1]:
        write = survey.writes[number]
        piece = next(piece for piece in write.pieces if piece.digest == version.digest)
        found = list(_owners(survey, write.offset_bytes + piece.start, since))
        # Of a file that grew, and of an earlier user of the place, the sizes are others.
        exact = [carrier for carrier in found if carrier.size_bytes == version.size_bytes]
        return exact or [carrier for carrier in found if carrier.size_bytes is None]
    return []


def _owners(survey: Survey, place_bytes: int, since: int) -> Iterable[Carrier]:
    for write, block, data in survey.metadata(since):
        home = block.home if block.home is not None else write.offset_bytes + block.start
        for owner in survey.layout.owners(home, data, place_bytes):
            yield Carrier(write.number, block, owner.inode, owner.size_bytes)


def _inline(survey: Survey, version: Version, since: int) -> list[Carrier]:
    content = survey.files.content(version.digest)
    if not content:
        return []
    return [
        Carrier(write.number, block, inode, len(content))
        for write, block, data in survey.metadata(since)
        for inode in survey.layout.inline_owners(data, content)
    ]


def _entries(
    survey: Survey, name: str, inodes: set[int], since: int, until: int
) -> tuple[list[Carrier], bool]:
    """The directory entries `name` of one of the inodes; and whether an older file hides them.

    Inode numbers are used again, too: a name that is replaced over and over may come back to one.
    So in a directory block that is written over and over, only a run of equal numbers counts that
    began at `since` or later, and the last of those that began before `until`, when the next
    version may have come.
    """
    encoded = name.encode("utf-8", "surrogateescape")
    runs: dict[int, list[list[Carrier]]] = defaultdict(list)
    found: list[Carrier] = []
    for write, block, data in survey.metadata():
        for inode in survey.layout.entries(data, encoded):
            carrier = Carrier(write.number, block, inode)
            directory = _directory(write, block)
            if directory is not None:
                _lengthen(runs[directory], carrier)
            elif inode in inodes and write.number >= since:
                found.append(carrier)
    hidden = False
    for of_block in runs.values():
        wanted = [run for run in of_block if run[0].inode in inodes]
        fresh = [run for run in wanted if run[0].write >= since]
        hidden = hidden or (bool(wanted) and not fresh and wanted[-1][-1].write >= since)
        early = [run for run in fresh if run[0].write < until]
        found += early[-1] if early else fresh[0] if fresh else []
    return sorted(found, key=lambda carrier: carrier.write), hidden and not found


def _lengthen(runs: list[list[Carrier]], carrier: Carrier) -> None:
    if runs and runs[-1][0].inode == carrier.inode:
        runs[-1].append(carrier)
    else:
        runs.append([carrier])


def _directory(write: SurveyedWrite, block: Block) -> int | None:
    """Which block of the disk a block with entries is a state of; None where it does not say."""
    if block.home is not None:
        return block.home
    in_place = block.role in (Role.METADATA, Role.UNKNOWN) and not block.transaction
    return write.offset_bytes + block.start if in_place else None

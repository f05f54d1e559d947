"""Where one content of one file is in a log: its data, its inode, its directory entry.

The chain is followed by what the writes hold: a page of the content is at some place of the disk,
an inode has that place among its extents, a directory entry has that inode's number and the name.
"""

import posixpath
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

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
    :ivar by_name: the entries were found by the name alone; they may be an older version's.
    :ivar twin: another file of equal content, where the log does not show which write is whose;
        the data and the inodes are then those of both. Else empty.
    :ivar unclear: why the entries could not be told, in words; empty where they could.
    """

    data: Sequence[int] = ()
    pages_missing: int = 0
    inline: Sequence[Carrier] = ()
    inodes: Sequence[Carrier] = ()
    entries: Sequence[Carrier] = ()
    by_name: bool = False
    twin: str = ""
    unclear: str = ""


def follow(survey: Survey, version: Version) -> Trail:
    """Find a version's writes. Only writes since the step that made it began are considered."""
    search = _Search(survey, version)
    trails = list(search.by_data())
    if not trails:
        trails = [search.by_inline()]
    # With several files of equal content, it is the one whose inode has the right name.
    named = [trail for trail in trails if trail.entries and not search.same_name]
    if named:
        return named[0]
    others = [name for name in survey.files.names(version.digest) if name != version.path]
    if search.same_name or (others and (trails[0].data or trails[0].inline)):
        twin = (search.same_name or others)[0]
        return replace(
            trails[0],
            data=sorted({write for trail in trails for write in trail.data}),
            inodes=[carrier for trail in trails for carrier in trail.inodes],
            entries=(),
            twin=twin,
            unclear=f"`{twin}` has the same content",
        )
    return trails[0] if trails[0].inodes else search.by_name(trails[0])


class _Search:
    """Looks for the writes of one version."""

    def __init__(self, survey: Survey, version: Version) -> None:
        self.survey = survey
        self.version = version
        self.name = posixpath.basename(version.path)
        self.since = _first_write(survey, version.step)
        versions = list(survey.files.paths[version.path])
        later = versions[versions.index(version) + 1 :]
        self.is_old_name = versions[0] != version
        self.until = _first_write(survey, later[0].step) if later else len(survey.log.requests)
        self.same_name = [
            other
            for other in survey.files.names(version.digest)
            if other != version.path and posixpath.basename(other) == self.name
        ]

    def by_data(self) -> Iterator[Trail]:
        """One trail for each place at which the first page was written."""
        count = -(-self.version.size_bytes // PAGE_BYTES)
        pages = [self._holders(page) for page in range(count)]
        first = next((page for page, holders in enumerate(pages) if holders), None)
        if first is None:
            return
        missing = sum(not holders for holders in pages)
        places: set[int] = set()
        for number in pages[first]:
            place = self._place(number, first)
            if place in places:
                continue
            places.add(place)
            # The other pages of the same file follow, or came first where it was written backwards.
            rest = {_nearest(holders, number) for holders in pages if holders}
            yield self._named(Trail(sorted({number, *rest}), missing, (), self._inodes(place)))

    def _holders(self, page: int) -> list[int]:
        holders = self.survey.holders(self.version.digest, page)
        return [write for write in holders if write >= self.since]

    def _place(self, number: int, page: int) -> int:
        write = self.survey.writes[number]
        piece = next(p for p in write.pieces if p.digest == self.version.digest and page in p.pages)
        return write.offset_bytes + piece.start + (page - piece.pages.start) * PAGE_BYTES

    def _inodes(self, place_bytes: int) -> list[Carrier]:
        """The inodes that have a place; of a file that grew, only with the right size.

        Sizes that are wrong belong to an earlier user of the place, too.
        """
        found = [
            Carrier(write.number, block, owner.inode, owner.size_bytes)
            for write, block, data in self.survey.metadata(self.since)
            for owner in self.survey.layout.owners(_home(write, block), data, place_bytes)
        ]
        exact = [carrier for carrier in found if carrier.size_bytes == self.version.size_bytes]
        return exact or [carrier for carrier in found if carrier.size_bytes is None]

    def by_inline(self) -> Trail:
        """The trail of a small file that is kept inside metadata."""
        content = self.survey.files.content(self.version.digest)
        pages = -(-self.version.size_bytes // PAGE_BYTES)
        if not content:
            return Trail(pages_missing=pages)
        inline = [
            Carrier(write.number, block, inode, len(content))
            for write, block, data in self.survey.metadata(self.since)
            for inode in self.survey.layout.inline_owners(data, content)
        ]
        if not inline:
            return Trail(pages_missing=pages)
        return self._named(Trail(inline=inline, inodes=inline))

    def _named(self, trail: Trail) -> Trail:
        """With the directory entries of its inodes, and only the inodes that have one, if any."""
        wanted = {carrier.inode for carrier in trail.inodes}
        if not wanted:
            return replace(trail, unclear="its inode could not be told from the log")
        entries, hidden = self._entries(wanted)
        named = {carrier.inode for carrier in entries}
        inodes = [each for each in trail.inodes if not named or each.inode in named]
        unclear = _HIDDEN if hidden and not entries else ""
        inline = inodes if trail.inline else ()
        return replace(trail, inline=inline, inodes=inodes, entries=entries, unclear=unclear)

    def by_name(self, trail: Trail) -> Trail:
        """With the entries of that name, for a version whose inode could not be told."""
        paths = self.survey.files.paths
        if sum(posixpath.basename(path) == self.name for path in paths) > 1:
            return trail
        entries, _ = self._entries(None)
        return replace(trail, entries=entries, by_name=True)

    def _entries(self, inodes: set[int] | None) -> tuple[list[Carrier], bool]:
        """The directory entries of one of the inodes (None: of any); whether there are older ones.

        Inode numbers are used again: a name that is replaced over and over may come back to one. So
        in a directory block that is written over and over, only a run of equal numbers counts that
        began at `since` or later, and the last of those that began before `until`, when the next
        version may have come.
        """
        encoded = self.name.encode("utf-8", "surrogateescape")
        runs: dict[int, list[list[Carrier]]] = defaultdict(list)
        found: list[Carrier] = []
        older = False
        for write, block, data in self.survey.metadata():
            for inode in self.survey.layout.entries(data, encoded):
                carrier = Carrier(write.number, block, inode)
                if _is_directory_state(block):
                    _lengthen(runs[_home(write, block)], carrier)
                elif inodes is None or inode in inodes:
                    older = older or write.number < self.since
                    found += [carrier] if write.number >= self.since else []
        for of_block in runs.values():
            if self.is_old_name and of_block and (inodes is None or of_block[0][0].inode in inodes):
                # The block may have been like that before it was first seen here.
                older = True
                del of_block[0]
            wanted = [run for run in of_block if inodes is None or run[0].inode in inodes]
            fresh = [run for run in wanted if run[0].write >= self.since]
            older = older or len(fresh) < len(wanted)
            early = [run for run in fresh if run[0].write < self.until]
            found += early[-1] if early else fresh[0] if fresh else []
        return sorted(found, key=lambda carrier: carrier.write), older


_HIDDEN = (
    "the name had that inode number before (the file was rewritten in place, or the number was "
    "used again)"
)


def _nearest(holders: Sequence[int], number: int) -> int:
    """The first holder from `number` on, else the last before it."""
    return next((write for write in holders if write >= number), holders[-1])


def _home(write: SurveyedWrite, block: Block) -> int:
    """Where a block belongs on the disk."""
    return block.home if block.home is not None else write.offset_bytes + block.start


def _is_directory_state(block: Block) -> bool:
    """Whether a block with entries is one that is written over and over at its one home."""
    in_place = block.role in (Role.METADATA, Role.UNKNOWN) and not block.transaction
    return block.home is not None or in_place


def _lengthen(runs: list[list[Carrier]], carrier: Carrier) -> None:
    if runs and runs[-1][0].inode == carrier.inode:
        runs[-1].append(carrier)
    else:
        runs.append([carrier])


def _first_write(survey: Survey, step: str) -> int:
    """The number of the first request after a step began; the first of all for the set-up."""
    for mark in survey.log.marks:
        if step_name(mark.text) == step:
            return survey.log.submitted_before(mark.position)
    return 0

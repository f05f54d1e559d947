"""What of a file reached the disk, by which commit, and what did not."""

from collections.abc import Sequence

from crashsim.explain import phrases
from crashsim.explain.causes import commit_cause
from crashsim.explain.evidence import Commit, Evidence, Fate
from crashsim.explain.files import PREPARED, Version
from crashsim.explain.lineage import Trace
from crashsim.explain.trail import Carrier, Trail, follow
from crashsim.explain.unrelated import UnrelatedData

_ENTRY = "Its directory entry"
_ENTRY_BY_NAME = "A directory entry of its name (the first since the step began)"


class DiskAccount:
    """Tells what became of one version of a file in one crash state.

    :ivar named: the writes that the sentences name.
    :ivar entry_lost: the directory entry is not on the disk.
    """

    def __init__(self, evidence: Evidence, unrelated: UnrelatedData, trace: Trace | None) -> None:
        """Tell about the state of `evidence`; the others tell who asked for a sync."""
        self.evidence = evidence
        self.unrelated = unrelated
        self.survey = evidence.survey
        self.trace = trace
        self.named: set[int] = set()
        self.entry_lost = False

    def sentences(self, version: Version, *, in_place: bool = False) -> list[str]:
        """About its directory entry, its data, and its inode if that is what is missing.

        :param in_place: the file is older than this content: its entry is left out.
        """
        if version.step == PREPARED:
            return ["That content was on the disk before the exploration's start."]
        trail = follow(self.survey, version)
        counted = next((c for c in trail.entries if self.evidence.counts(c)), None)
        self.entry_lost = bool(trail.entries) and counted is None and not in_place
        sentences = [] if in_place else [self._entry(version, trail, counted)]
        if trail.inline:
            inside = "Its content, which is kept inside its metadata,"
            if not (trail.twin and any(map(self.evidence.counts, trail.inline))):
                sentences.append(self._carried(inside, trail.inline))
            return sentences
        sentences.append(self._data(version, trail, counted))
        lost = [write for write in trail.data if not self.evidence.on_disk(write)]
        shared = trail.twin and any(map(self.evidence.counts, trail.inodes))
        if trail.data and not trail.pages_missing and not lost and trail.inodes and not shared:
            inode = "Its inode, which says where that data is,"
            sentences.append(self._carried(inode, trail.inodes))
        return sentences

    def _entry(self, version: Version, trail: Trail, counted: Carrier | None) -> str:
        if counted is not None:
            commit = self.evidence.commit(counted)
            assert commit is not None  # what counts has a commit
            which = _ENTRY_BY_NAME if trail.by_name else _ENTRY
            return phrases.sentence(
                f"{which} reached the disk with {self._commit_words(commit)}"
                f"{self._cause_words(commit)}"
            )
        if trail.entries:
            return self._carried(_ENTRY_BY_NAME if trail.by_name else _ENTRY, trail.entries)
        if trail.unclear:
            return phrases.sentence(
                f"How its directory entry reached the disk could not be told: {trail.unclear}"
            )
        if self.survey.files.paths[version.path][0].step == PREPARED:
            return "No write holds its directory entry; it was there at the exploration's start."
        return "No write of the log was found to hold its directory entry."

    def _carried(self, what: str, carriers: Sequence[Carrier]) -> str:
        """Where a fact was: the first carrier that counts, or the first of all and why not."""
        evidence = self.evidence
        for carrier in carriers:
            commit = evidence.commit(carrier)
            if commit is not None and evidence.counts(carrier):
                words = self._commit_words(commit)
                return phrases.sentence(f"{what} reached the disk with {words}")
        first = carriers[0]
        commit = evidence.commit(first)
        if commit is None:
            self.named.add(first.write)
            return phrases.sentence(
                f"{what} was first sent in write {first.write} ({first.block.what}), which the log "
                "never commits"
            )
        return phrases.sentence(
            f"{what} did not reach the disk: it is first in "
            f"{self._commit_words(commit, sent=False)}, and "
            f"{self._why_lost([first.write, *commit.writes])}"
        )

    def _commit_words(self, commit: Commit, *, sent: bool = True) -> str:
        self.named.update((commit.write, *commit.writes))
        writes = phrases.numbers("write", commit.writes)
        at = self.evidence.durable_at(commit.write)
        sent_ms = self.evidence.submitted_ms(commit.write)
        when = f"; sent at {sent_ms:.0f} ms" if self.evidence.has_times else ""
        durable = ", not durable yet" if sent else ""
        if sent and at is not None and at < self.evidence.state.cut:
            durable = f", durable since event {at}"
        return f"{self.survey.layout.fstype}'s {commit.what} ({writes}{when}{durable})"

    def _cause_words(self, commit: Commit) -> str:
        cause = commit_cause(self.survey, commit, self.unrelated, self.trace)
        if cause.write is not None:
            self.named.add(cause.write)
        return phrases.cause(cause)

    def _data(self, version: Version, trail: Trail, entry: Carrier | None) -> str:
        if not trail.data:
            known = self.survey.files.content(version.digest) is not None
            files = self.survey.files
            if known and files.paths[version.path][-1] != version:
                return "Its data was never sent: a later version replaced it before."
            if known and not files.is_there(version.path, files.steps[-1]):
                return "Its data was never sent: a later step removed the file before."
            return "Its data could not be told from the log: no write was found to hold it."
        self.named.update(trail.data)
        shown = phrases.numbers("write", trail.data)
        partly = f", {trail.pages_missing} of its pages in no write" if trail.pages_missing else ""
        if trail.twin:
            partly += f", or that of `{trail.twin}`, which is equal"
        lost = [write for write in trail.data if not self.evidence.on_disk(write)]
        if not lost:
            return phrases.sentence(f"Its data ({shown}{partly}) was on the disk")
        return phrases.sentence(
            f"Its data ({shown}{partly}) was not on the disk: {self._why_lost(lost, entry)}"
        )

    def _why_lost(self, writes: Sequence[int], entry: Carrier | None = None) -> str:
        """Why writes are not in the image: the first lost one tells."""
        evidence, requests = self.evidence, self.survey.log.requests
        lost = sorted(write for write in writes if not evidence.on_disk(write))
        if not lost:
            return "nothing is lost: why it does not count could not be told"
        first, cut = lost[0], evidence.state.cut
        sent_ms = evidence.submitted_ms(first)
        if evidence.fate(first) is Fate.NOT_SENT:
            unsent = (
                f"write {first} had not been sent yet when the power failed (before event {cut}"
            )
            if not evidence.has_times:
                return f"{unsent})"
            return (
                f"{unsent}, {evidence.cut_ms:.0f} ms after the start) and came "
                f"{sent_ms - evidence.cut_ms:.0f} ms later"
            )
        torn = evidence.fate(first) is Fate.TORN
        ending = "only a part of it was written" if torn else "it was lost"
        commit = evidence.commit(entry) if entry is not None else None
        after = ""
        if commit is not None and commit.write < first and evidence.has_times:
            later_ms = sent_ms - evidence.submitted_ms(commit.write)
            after = f", {later_ms:.0f} ms after the directory entry's commit"
        at = int(requests.submitted_at[first])
        when = f" ({sent_ms:.0f} ms after the start{after})" if evidence.has_times else ""
        return (
            f"write {first} was sent at event {at}{when}, no "
            f"flush had covered it when the power failed (before event {cut}), and {ending}"
        )

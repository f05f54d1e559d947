"""Explain a finding: which file is broken, which write is to blame, which call was missing.

Every sentence is derived from the log, the snapshots and the trace; what they do not show is said
to be unknown and never guessed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from crashsim.disk.state import CrashState
from crashsim.explain import phrases
from crashsim.explain.account import DiskAccount
from crashsim.explain.components import git_component
from crashsim.explain.evidence import Evidence
from crashsim.explain.files import PREPARED, Version
from crashsim.explain.git_objects import object_words
from crashsim.explain.lineage import Trace
from crashsim.explain.missing import Missing, what_was_missing
from crashsim.explain.subjects import Subject, describe, differing_paths, subject_paths
from crashsim.explain.survey import Survey
from crashsim.explain.trail import follow
from crashsim.explain.unrelated import UnrelatedData
from crashsim.faults.disturbances import Disturbance
from crashsim.machines.tree import NodeKind, Tree
from crashsim.oracles.protocol import Violation
from crashsim.workloads.marks import step_name

_NOTES_MAX = 64
_PATHS_MAX = 8
"""How many files are looked at when a finding does not say which one it is about."""


@dataclass(frozen=True, slots=True)
class WriteNote:
    """One write of the log in words.

    :ivar write: the request's number.
    :ivar what: what it holds.
    """

    write: int
    offset_bytes: int
    length_bytes: int
    what: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A finding in words.

    :ivar sentences: for people, in the order of reading.
    :ivar notes: the lost writes, and those that the sentences name.
    """

    sentences: list[str]
    notes: list[WriteNote]


@dataclass(frozen=True)
class Background:
    """What is the same for all findings of a recording.

    :ivar trace: of another run of the same steps; None: sentences about calls are left out.
    :ivar disturbances: what the recording was made with.
    :ivar git_directories: the repositories on the filesystem, relative to its root; empty for a
        program that is not git: its findings are explained without a word of git.
    """

    survey: Survey
    trace: Trace | None = None
    disturbances: Sequence[Disturbance] = ()
    git_directories: Sequence[str] = ()

    @cached_property
    def unrelated(self) -> UnrelatedData:
        """What the disturbances wrote."""
        return UnrelatedData(self.disturbances)


@dataclass(frozen=True)
class Case:
    """A finding.

    :ivar state: the shrunk crash state.
    :ivar violation: how it fails.
    :ivar needed: the lost writes of which each, restored alone, makes the violation go away.
    :ivar recovered: the tree that recovery found; None: the violation's own words are used.
    """

    state: CrashState
    violation: Violation
    needed: Sequence[int] = ()
    recovered: Tree | None = None


def explain(case: Case, background: Background) -> Explanation:
    """Explain a finding; three to seven sentences where its file is known."""
    evidence = Evidence(background.survey, case.state)
    explainer = _Explainer(case, background, evidence)
    return explainer.explanation()


def _last(versions: Sequence[Version]) -> Version | None:
    return versions[-1] if versions else None


class _Explainer:
    """One explanation under way."""

    def __init__(self, case: Case, background: Background, evidence: Evidence) -> None:
        self.case = case
        self.background = background
        self.survey = background.survey
        self.evidence = evidence
        self.named: set[int] = set()
        """The writes that the sentences name."""

    def explanation(self) -> Explanation:
        subject = self._subject()
        sentences = [self._what_is_broken(subject)]
        if subject is not None and subject.expected is not None:
            sentences += self._about_file(subject, subject.expected)
        elif subject is None:
            sentences += self._lost_writes()
        sentences.append(self._needed(subject))
        return Explanation([each for each in sentences if each], self._notes(subject))

    def _about_file(self, subject: Subject, version: Version) -> list[str]:
        background = self.background
        missing: Missing | None = None
        if background.trace is not None and version.step != PREPARED:
            missing = what_was_missing(background.trace, subject.path, version.step)
        account = DiskAccount(self.evidence, background.unrelated, background.trace)
        sentences: list[str] = []
        if not subject.right and self.survey.names_blocks:
            in_place = missing is not None and missing.in_place
            sentences += account.sentences(version, in_place=in_place)
            self.named |= account.named
        if missing is not None:
            sentences += [phrases.missing(missing), self._advice(missing, version)]
            sentences.append(phrases.directory_advice(missing) if account.entry_lost else "")
        return sentences

    # -- which file

    def _subject(self) -> Subject | None:
        files, recovered = self.survey.files, self.case.recovered
        begun = self._begun_steps()
        paths = subject_paths(self.case.violation, files, self.background.git_directories)
        if not paths and self._is_leftover():
            return None
        if not paths:
            paths = self._paths_of_lost_writes()
        if not paths and recovered is not None:
            paths = differing_paths(recovered, files, begun)
        subjects = [
            describe(path, self._likeliest(path, begun), files, begun, recovered)
            for path in paths[:_PATHS_MAX]
        ]
        wrong = [each for each in subjects if not each.right and each.expected is not None]
        chosen = wrong or subjects
        return chosen[0] if chosen else None

    def _is_leftover(self) -> bool:
        """Whether the violation is about a file that no step left behind: a lock, say."""
        recovered = self.case.recovered
        node = recovered.nodes.get(self.case.violation.subject) if recovered is not None else None
        return node is not None and node.kind is NodeKind.FILE

    def _likeliest(self, path: str, begun: Sequence[str]) -> Version | None:
        """The version that a path was to have; None where it was to have none.

        A damaged file is the newest version of its size, else the newest one whose directory entry
        is on the disk, else the newest one. A file that is missing, or whole but old, was to be the
        newest version of a step that had ended (a mark came after it).
        """
        files, recovered = self.survey.files, self.case.recovered
        versions = [v for v in files.paths.get(path, ()) if v.step in begun]
        node = recovered.nodes.get(path) if recovered is not None else None
        if node is not None and node.digest not in {version.digest for version in versions}:
            return self._damaged_version(versions, node.size_bytes)
        ended = [step for step in begun if step in self._ended_steps()]
        if node is None and recovered is not None and ended and not files.is_there(path, ended[-1]):
            in_progress = [v for v in versions if v.step not in ended]
            return in_progress[-1] if in_progress else None
        of_ended = [version for version in versions if version.step in ended]
        return _last(of_ended or versions)

    def _damaged_version(self, versions: Sequence[Version], size_bytes: int) -> Version | None:
        of_size = [v for v in versions if 0 < v.size_bytes == size_bytes]
        if of_size:
            return of_size[-1]
        # What was there before the exploration was durable: it cannot be what is damaged.
        made = [version for version in versions if version.step != PREPARED]
        for version in reversed(made):
            if any(map(self.evidence.counts, follow(self.survey, version).entries)):
                return version
        return _last(versions)

    def _ended_steps(self) -> set[str]:
        """The steps that had begun, without the last one if no mark came after its own."""
        before = [m for m in self.survey.log.marks if m.position < self.case.state.cut]
        last = step_name(before[-1].text) if before else None
        return {step for step in self._begun_steps() if step != last}

    def _begun_steps(self) -> list[str]:
        """The steps that had begun; also those of which no mark says when (`prepare`)."""
        marks = self.survey.log.marks
        later = {step_name(m.text) for m in marks if m.position >= self.case.state.cut}
        return [step for step in self.survey.files.steps if step not in later]

    def _paths_of_lost_writes(self) -> list[str]:
        """The files with data in the writes that the violation hangs on."""
        lost = self.case.needed or sorted(self.case.state.dropped)
        writes = [self.survey.writes[number] for number in lost if number in self.survey.writes]
        digests = [piece.digest for write in writes for piece in write.pieces]
        return [path for digest in digests for path in self.survey.files.names(digest)]

    def _what_is_broken(self, subject: Subject | None) -> str:
        detail = self.case.violation.detail
        if subject is None or not subject.found or subject.right:
            return phrases.sentence(f"After recovery: {detail}")
        what = ""
        if self.background.git_directories and subject.expected is not None:
            content = self.survey.files.content(subject.expected.digest)
            what = object_words(content, self.survey.files)
        path = f"`{subject.path}`" + (f" ({what})" if what else "")
        return phrases.sentence(f"After recovery {path} {subject.found}")

    # -- which call was missing

    def _advice(self, missing: Missing, version: Version) -> str:
        content = self.survey.files.content(version.digest)
        for directory in self.background.git_directories:
            component = git_component(missing.path, directory, content)
            if component is not None:
                return phrases.git_advice(missing, component)
        return phrases.advice(missing)

    # -- the writes themselves

    def _lost_writes(self) -> list[str]:
        """For findings without a file: what the lost writes are."""
        state = self.case.state
        lost = sorted([*state.dropped, *(torn.write for torn in state.torn)])
        if not lost:
            when = f", {self.evidence.cut_ms:.0f} ms after the start"
            return [
                phrases.sentence(
                    "Nothing is lost but what had not been sent when the power failed, before "
                    f"event {state.cut}{when if self.evidence.has_times else ''}"
                )
            ]
        shown = "; ".join(f"{number}, {self._words(number)}" for number in lost[:3])
        more = f", and {len(lost) - 3} more" if len(lost) > 3 else ""
        return [phrases.sentence(f"Lost: write {shown}{more}")]

    def _needed(self, subject: Subject | None) -> str:
        needed = list(self.case.needed)
        if not needed:
            return ""
        self.named.update(needed)
        words = phrases.numbers("write", needed)
        each = "Restored alone, " if len(needed) == 1 else "Each restored alone, "
        what = self._words(needed[0], subject)
        return phrases.sentence(f"{each}{words} ({what}) makes the violation go away")

    def _notes(self, subject: Subject | None) -> list[WriteNote]:
        state = self.case.state
        lost = {*state.dropped, *(torn.write for torn in state.torn)}
        requests = self.survey.log.requests
        return [
            WriteNote(
                number,
                int(requests.offset_bytes[number]),
                int(requests.length_bytes[number]),
                self._words(number, subject),
            )
            for number in sorted(lost | self.named)[:_NOTES_MAX]
        ]

    def _words(self, number: int, subject: Subject | None = None) -> str:
        path = subject.path if subject is not None else ""
        return self.survey.words(number, path, self.background.unrelated)

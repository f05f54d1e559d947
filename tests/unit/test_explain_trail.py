"""Following a file through a log, on an XFS log that Linux wrote."""

import random
from pathlib import Path

import pytest

from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.request import Operation, Request
from crashsim.disk.state import CrashState
from crashsim.explain.causes import Cause, commit_cause
from crashsim.explain.evidence import Evidence, Fate
from crashsim.explain.files import Snapshot
from crashsim.explain.survey import Survey, survey
from crashsim.explain.trail import Trail, follow
from crashsim.explain.unrelated import UnrelatedData
from crashsim.faults.disturbances import Kind, make
from crashsim.machines.tree import Tree
from crashsim.workloads.marks import START, step_mark
from tests.support import captures
from tests.support.host_tree import changed_tree

SIZE = 320 << 20
PATH = f"repo/objects/48/{captures.SMALL}"
PLACE = 164_144 * 512
DISTURBANCES = make([Kind.FSYNC], seed=3)


class Story:
    """Unrelated data, the record with the name, the record with the inode, then the file's data."""

    def __init__(self, directory: Path) -> None:
        content = captures.small_content()
        first, second = captures.writes("xfs")
        appended = random.Random(DISTURBANCES[0].seed).randbytes(512)
        with LogWriter(directory, SIZE) as writer:

            def write(offset: int, data: bytes) -> int:
                padded = data + bytes(-len(data) % 4096)
                number = writer.submit(Request(Operation.WRITE, offset, len(padded), data=padded))
                writer.complete(number)
                return number

            def flush() -> None:
                writer.complete(writer.submit(Request(Operation.FLUSH)))

            write(0, captures.read_parts("xfs")[0])
            flush()
            writer.mark(START)
            writer.mark(step_mark("save"))
            self.unrelated = write(SIZE - 4096, appended)
            self.name = _write_exactly(writer, *first)
            self.inode = _write_exactly(writer, *second)
            self.data = write(PLACE, content)
            self.all_sent = writer.event_count
            flush()
        self.log = Log.open(directory)
        tree = changed_tree(Tree({}), {PATH: content})
        snapshots = [Snapshot("prepare", Tree({})), Snapshot("save", tree)]
        self.survey: Survey = survey(ImageIndex(self.log), "xfs", snapshots)
        self.trail: Trail = follow(self.survey, self.survey.files.paths[PATH][-1])

    def evidence(self, *dropped: int) -> Evidence:
        return Evidence(self.survey, CrashState(self.all_sent, frozenset(dropped)))


def _write_exactly(writer: LogWriter, offset: int, data: bytes) -> int:
    number = writer.submit(Request(Operation.WRITE, offset, len(data), data=data))
    writer.complete(number)
    return number


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("xfs"))


def test_data_inode_and_name_are_joined(story: Story) -> None:
    trail = story.trail

    assert (trail.data, trail.pages_missing) == ([story.data], 0)
    assert [(each.write, each.inode) for each in trail.entries] == [(story.name, 262_305)]


def test_an_earlier_owner_of_the_place_is_told_from_the_file_by_its_size(story: Story) -> None:
    assert {carrier.inode for carrier in story.trail.inodes} == {262_305}


def test_a_fact_counts_when_its_record_is_there(story: Story) -> None:
    (entry,) = story.trail.entries

    assert story.evidence().counts(entry)
    assert story.evidence(story.data).counts(entry)
    assert not story.evidence(story.name).counts(entry)


def test_a_log_is_replayed_only_up_to_its_first_gap(story: Story) -> None:
    inode = story.trail.inodes[0]

    assert inode.write == story.inode
    assert story.evidence().counts(inode)
    assert not story.evidence(story.name).counts(inode)


def test_the_fate_of_each_write(story: Story) -> None:
    evidence = story.evidence(story.data)
    early = Evidence(story.survey, CrashState(int(story.log.requests.submitted_at[story.data])))
    end = Evidence(story.survey, CrashState(story.log.event_count))

    assert evidence.fate(story.data) is Fate.DROPPED
    assert evidence.fate(story.name) is Fate.KEPT
    assert early.fate(story.data) is Fate.NOT_SENT
    assert end.fate(story.data) is Fate.DURABLE


def test_unrelated_data_is_the_cause_of_the_next_commit_alone(story: Story) -> None:
    unrelated = UnrelatedData(DISTURBANCES)
    evidence = story.evidence()
    entry, inode = story.trail.entries[0], story.trail.inodes[0]
    first, second = evidence.commit(entry), evidence.commit(inode)
    assert first is not None
    assert second is not None

    caused = commit_cause(story.survey, first, unrelated, None)
    uncaused = commit_cause(story.survey, second, unrelated, None)

    assert (caused.cause, caused.write) == (Cause.OTHER_PROCESS, story.unrelated)
    assert uncaused.cause is Cause.UNKNOWN
    assert caused.step == uncaused.step == "save"

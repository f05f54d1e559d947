"""Explanations of findings on a real ext4 journal, word for word where numbers matter."""

import random
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from crashsim.disk.state import CrashState
from crashsim.explain.explain import Background, Case, Explanation, WriteNote, explain
from crashsim.explain.files import Snapshot
from crashsim.explain.lineage import Trace
from crashsim.explain.survey import Survey, survey
from crashsim.faults.disturbances import Disturbance, Kind, make
from crashsim.machines.tree import Tree
from crashsim.oracles.protocol import Property, Violation
from tests.support import ext4_story
from tests.support.ext4_story import CONTENT, PATH, STEP, Images, Story
from tests.support.host_tree import changed_tree
from tests.support.strace_text import traced

pytestmark = pytest.mark.skipif(ext4_story.tools_missing(), reason="e2fsprogs is not installed")

EMPTY = Tree({})
RENAMED = """
10 execve("/usr/bin/prog", ["prog", "save"], 0x1 /* 9 vars */) = 0
10 openat(AT_FDCWD</mnt/0/repo>, "new", O_WRONLY|O_CREAT|O_EXCL, 0600) = 3</mnt/0/repo/new>
10 write(3</mnt/0/repo/new>, "w"..., 5400) = 5400
10 rename("new", "precious") = 0
"""
SYNC = "10 fsync(3</mnt/0/repo/precious>) = 0\n"


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Images:
    return ext4_story.make_images(tmp_path_factory.mktemp("ext4"))


@pytest.fixture(scope="module")
def story(images: Images, tmp_path_factory: pytest.TempPathFactory) -> Story:
    return ext4_story.tell(tmp_path_factory.mktemp("log"), images)


@pytest.fixture(scope="module")
def surveyed(story: Story) -> Survey:
    return survey(story.index, "ext4", story.snapshots)


def trace_of(text: str) -> Trace:
    return traced(text, step="save")


def explained(
    surveyed: Survey,
    state: CrashState,
    found: bytes | None,
    *,
    trace: Trace | None = None,
    disturbances: Sequence[Disturbance] = (),
    git_directories: tuple[str, ...] = (),
    needed: tuple[int, ...] = (),
    subject: str = PATH,
) -> Explanation:
    recovered = EMPTY if found is None else changed_tree(EMPTY, {PATH: found})
    violation = Violation(Property.INTACT, "check-failed", subject, "the check says no")
    return explain(
        Case(state, violation, needed, recovered),
        Background(surveyed, trace, disturbances, git_directories),
    )


def test_every_write_of_the_log_has_a_name(surveyed: Survey, story: Story) -> None:
    words = [surveyed.words(number) for number in surveyed.writes]

    assert words[0] == "journal superblock"
    assert words[1] == "journal descriptor block 1 (6 blocks)"
    assert "journaled copy of directory block (precious)" in words
    assert words[-3:] == [
        "journal commit block 1",
        f"data of {PATH} (page 1 of 2)",
        f"data of {PATH} (page 2 of 2)",
    ]


def test_data_that_had_not_been_sent_when_the_power_failed(surveyed: Survey, story: Story) -> None:
    state = CrashState(story.committed)

    broken, entry, data = explained(surveyed, state, b"").sentences

    assert broken == f"After recovery `{PATH}` is empty (0 bytes instead of 5400)."
    descriptor, commit = story.journal[1], story.journal[-1]
    assert entry.startswith(
        "Its directory entry reached the disk with ext4's journal commit block 1 "
        f"(writes {descriptor}-{commit - 2} and {commit}; sent at "
    )
    assert f"durable since event {story.committed - 1})" in entry
    assert entry.endswith("for a reason that could not be told from the log.")
    first, second = story.data
    assert data.startswith(
        f"Its data (writes {first}-{second}) was not on the disk: write {first} had not been sent "
        f"yet when the power failed (before event {story.committed}, "
    )


def test_data_that_was_sent_and_lost(surveyed: Survey, story: Story) -> None:
    state = ext4_story.lost(story)
    needed = (story.data[0],)

    explanation = explained(surveyed, state, b"", needed=needed)

    assert re.search(
        rf"write {needed[0]} was sent at event {story.committed} \(\d+ ms after the start, "
        r"\d+ ms after the directory entry's commit\), no flush had covered it when the power "
        rf"failed \(before event {state.cut}\), and it was lost\.",
        explanation.sentences[2],
    )
    assert explanation.sentences[3] == (
        f"Restored alone, write {needed[0]} (data of {PATH} (page 1 of 2)) makes the violation go "
        "away."
    )
    place = int(surveyed.log.requests.offset_bytes[needed[0]])
    note = WriteNote(needed[0], place, 4096, f"data of {PATH} (page 1 of 2)")
    assert note in explanation.notes


def test_a_commit_that_is_there_by_luck_is_not_called_durable(
    surveyed: Survey, story: Story
) -> None:
    cut = int(surveyed.log.requests.submitted_at[story.journal[-1]]) + 1

    _, entry, _ = explained(surveyed, CrashState(cut), b"").sentences

    assert entry.startswith("Its directory entry reached the disk with")
    assert "not durable yet)" in entry


def test_an_entry_from_before_the_step_is_not_this_versions(images: Images, tmp_path: Path) -> None:
    story = ext4_story.tell(tmp_path, images, committed_first=True)
    surveyed = survey(story.index, "ext4", story.snapshots)

    _, entry, _ = explained(surveyed, CrashState(surveyed.log.event_count), b"").sentences

    assert entry == (
        "How its directory entry reached the disk could not be told: its inode could not be told "
        "from the log."
    )


def test_nothing_is_claimed_of_a_file_that_no_step_had_begun_to_make(surveyed: Survey) -> None:
    state = CrashState(surveyed.start + 1)

    assert explained(surveyed, state, None, trace=trace_of(RENAMED)).sentences == [
        f"After recovery `{PATH}` is missing."
    ]


OLDER = changed_tree(EMPTY, {PATH: b"an older content"})
NEWER = changed_tree(EMPTY, {PATH: CONTENT})


def surveyed_with(story: Story, before: Tree, after: Tree) -> Survey:
    return survey(story.index, "ext4", [Snapshot("prepare", before), Snapshot(STEP, after)])


def test_a_damaged_file_is_the_version_that_was_being_made(story: Story) -> None:
    """Not the one of before, which was durable and cannot be damaged."""
    surveyed = surveyed_with(story, OLDER, NEWER)

    broken, entry, data = explained(surveyed, CrashState(story.committed), b"").sentences

    assert broken == f"After recovery `{PATH}` is empty (0 bytes instead of 5400)."
    # By the log the name may have had that inode before.
    assert entry.startswith("How its directory entry reached the disk could not be told: the name")
    assert f"write {story.data[0]} had not been sent yet" in data


def test_an_old_version_is_held_against_the_one_of_the_step_that_ended(story: Story) -> None:
    surveyed = surveyed_with(story, OLDER, NEWER)
    state = CrashState(surveyed.log.event_count)

    broken, *_, data, _ = explained(surveyed, state, b"an older content").sentences

    assert broken == f"After recovery `{PATH}` has its content of step `prepare` (16 bytes)."
    assert data.startswith(f"Its data (writes {story.data[0]}-{story.data[1]})")


def test_a_file_that_the_step_removed_is_not_missed(story: Story) -> None:
    surveyed = surveyed_with(story, OLDER, EMPTY)
    state = CrashState(surveyed.log.event_count)

    assert explained(surveyed, state, None).sentences == [f"After recovery `{PATH}` is missing."]
    assert "a later version replaced it" not in " ".join(explained(surveyed, state, b"").sentences)
    assert explained(surveyed, state, None, subject="").sentences[0] == (
        "After recovery: the check says no."
    )


def test_the_entry_of_a_file_that_was_changed_in_place_is_left_out(story: Story) -> None:
    surveyed = surveyed_with(story, OLDER, NEWER)
    calls = """
    10 open("precious", O_WRONLY|O_TRUNC) = 3</mnt/0/repo/precious>
    10 write(3</mnt/0/repo/precious>, "w"..., 5400) = 5400
    """
    trace = traced(calls, existing=(PATH,), step="save")

    _, data, call, advice = explained(
        surveyed, CrashState(story.committed), b"", trace=trace
    ).sentences

    assert data.startswith("Its data")
    assert f"truncated `{PATH}` and wrote it anew in place" in call
    assert advice.startswith("Writing a new file, fsyncing it and renaming it")


def test_a_directory_entry_that_was_lost(surveyed: Survey, story: Story) -> None:
    commit = story.journal[-1]
    cut = int(surveyed.log.requests.submitted_at[commit]) + 1

    broken, entry, _ = explained(surveyed, CrashState(cut, frozenset({commit})), None).sentences

    assert broken == f"After recovery `{PATH}` is missing."
    assert entry.startswith(
        "Its directory entry did not reach the disk: it is first in ext4's journal commit"
    )
    assert f"write {commit} was sent at event {cut - 1}" in entry
    assert "durable since" not in entry


def test_a_directory_entry_whose_transaction_misses_a_block_does_not_count(
    surveyed: Survey, story: Story
) -> None:
    commit, copy = story.journal[-1], story.journal[3]
    cut = int(surveyed.log.requests.submitted_at[commit]) + 1

    _, entry, _ = explained(surveyed, CrashState(cut, frozenset({copy})), None).sentences

    assert entry.startswith("Its directory entry did not reach the disk:")


def test_what_is_on_the_disk_is_said_to_be_there(surveyed: Survey, story: Story) -> None:
    end = surveyed.log.event_count

    _, _, data, inode = explained(surveyed, CrashState(end), b"").sentences

    first, second = story.data
    assert data == f"Its data (writes {first}-{second}) was on the disk."
    assert inode.startswith(
        "Its inode, which says where that data is, reached the disk with ext4's journal"
    )


def test_the_missing_call_of_any_program(surveyed: Survey, story: Story) -> None:
    sentences = explained(
        surveyed, CrashState(story.committed), b"", trace=trace_of(RENAMED)
    ).sentences

    assert sentences[-2:] == [
        "`prog save` never synced `repo/new` before rename gave it its name, nor afterwards.",
        "An fsync of it between the last write and the rename was missing.",
    ]
    assert not any("git" in sentence for sentence in sentences)


def test_a_lost_directory_entry_asks_for_a_sync_of_the_directory(
    surveyed: Survey, story: Story
) -> None:
    commit = story.journal[-1]
    cut = int(surveyed.log.requests.submitted_at[commit]) + 1
    state = CrashState(cut, frozenset({commit}))

    sentences = explained(surveyed, state, None, trace=trace_of(RENAMED)).sentences

    assert sentences[-1] == "Its directory, `repo`, was not synced after the rename, either."


def test_the_missing_setting_of_git(images: Images, tmp_path: Path) -> None:
    """The same file, in a place where git's loose objects are."""
    story = ext4_story.tell(tmp_path, images)
    name = "repo/.git/objects/3f/9c"
    tree = changed_tree(EMPTY, {name: CONTENT})
    snapshots = [story.snapshots[0], Snapshot(STEP, tree)]
    surveyed = survey(story.index, "ext4", snapshots)
    calls = RENAMED.replace("/repo/new", "/repo/.git/objects/3f/tmp_obj_1").replace(
        '"new"', '".git/objects/3f/tmp_obj_1"'
    )
    calls = calls.replace('rename("new", "precious")', "")
    calls += '10 link(".git/objects/3f/tmp_obj_1", ".git/objects/3f/9c") = 0\n'
    calls = calls.replace("10  = 0\n", "")

    sentences = explained(
        surveyed,
        CrashState(story.committed),
        None,
        trace=trace_of(calls),
        git_directories=("repo/.git",),
        subject=name,
    ).sentences

    assert sentences[-1] == (
        "An fsync before the link was missing: `core.fsync=loose-object` (or `objects`, "
        "`committed`, `added`, `all`) with `core.fsyncMethod=fsync` adds that call."
    )


def test_without_any_sync_the_filesystem_committed_by_itself(
    surveyed: Survey, story: Story
) -> None:
    _, entry, *_ = explained(
        surveyed, CrashState(story.committed), b"", trace=trace_of(RENAMED)
    ).sentences

    assert "on the filesystem's own account" in entry


def test_a_single_sync_of_the_program_is_named(surveyed: Survey, story: Story) -> None:
    trace = trace_of(RENAMED + SYNC)

    _, entry, *_ = explained(surveyed, CrashState(story.committed), b"", trace=trace).sentences

    assert entry.endswith(
        f"; the one sync call of step `{STEP}` is fsync of `repo/precious` by `prog save`."
    )


def test_a_trace_without_the_step_says_nothing_about_its_syncs(
    surveyed: Survey, story: Story
) -> None:
    trace = traced(RENAMED, step="another")

    _, entry, *_ = explained(surveyed, CrashState(story.committed), b"", trace=trace).sentences

    assert entry.endswith("for a reason that could not be told from the log.")


def test_an_unrelated_process_is_known_by_its_data(images: Images, tmp_path: Path) -> None:
    disturbances = make([Kind.FSYNC], seed=7)
    appended = random.Random(disturbances[0].seed).randbytes(512)
    story = ext4_story.tell(tmp_path, images, appended)
    surveyed = survey(story.index, "ext4", story.snapshots)

    _, entry, *_ = explained(
        surveyed,
        CrashState(story.committed),
        b"",
        trace=trace_of(RENAMED),
        disturbances=disturbances,
    ).sentences

    unrelated = story.journal[0] - 1
    assert entry.endswith(
        f"forced by an unrelated process's fsync (its data is write {unrelated})."
    )


def test_an_unrelated_process_without_its_data_is_no_cause(story: Story) -> None:
    surveyed = survey(story.index, "ext4", story.snapshots)

    _, entry, *_ = explained(
        surveyed,
        CrashState(story.committed),
        b"",
        trace=trace_of(RENAMED),
        disturbances=make([Kind.FSYNC], seed=7),
    ).sentences

    assert entry.endswith("for a reason that could not be told from the log.")


def test_a_finding_without_a_path_is_about_the_files_of_the_lost_writes(
    surveyed: Survey, story: Story
) -> None:
    state = ext4_story.lost(story)

    explanation = explained(surveyed, state, b"", subject="", needed=tuple(story.data[1:]))

    assert explanation.sentences[0] == (
        f"After recovery `{PATH}` is empty (0 bytes instead of 5400)."
    )


def test_a_finding_without_a_path_and_lost_writes_is_about_what_differs(
    surveyed: Survey, story: Story
) -> None:
    explanation = explained(surveyed, CrashState(story.committed), b"x" * 5400, subject="")

    assert explanation.sentences[0] == (
        f"After recovery `{PATH}` holds the right number of bytes, 5400, with wrong ones from byte "
        "0 on."
    )


def test_a_leftover_is_not_taken_for_another_file(surveyed: Survey, story: Story) -> None:
    state = ext4_story.lost(story)
    violation = Violation(Property.USABLE, "left", "repo/lock", "repo/lock is left over")
    recovered = changed_tree(EMPTY, {"repo/lock": b"", PATH: b""})

    explanation = explain(
        Case(state, violation, recovered=recovered), Background(surveyed, trace_of(RENAMED))
    )

    first, second = story.data
    assert explanation.sentences == [
        "After recovery: repo/lock is left over.",
        f"Lost: write {first}, data of {PATH} (page 1 of 2); {second}, data of {PATH} (page 2 of "
        "2).",
    ]


def test_a_finding_that_is_about_no_known_file_names_the_lost_writes(
    story: Story, surveyed: Survey
) -> None:
    commit = story.journal[-1]
    cut = int(surveyed.log.requests.submitted_at[commit]) + 1
    violation = Violation(Property.RECOVERABLE, "does-not-mount", "", "mount fails with EUCLEAN")

    explanation = explain(
        Case(CrashState(cut, frozenset({commit})), violation), Background(surveyed)
    )

    assert explanation.sentences == [
        "After recovery: mount fails with EUCLEAN.",
        f"Lost: write {commit}, journal commit block 1.",
    ]

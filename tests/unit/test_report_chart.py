"""Charts: each write's fate and times, over logs written by the real log writer."""

from pathlib import Path

import msgspec
import pytest

from crashsim.campaigns.results import Finding, TornResult, WriteNote
from crashsim.disk.log import Log
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.profile import PROFILES
from crashsim.disk.request import Operation, Request
from crashsim.oracles.git.snapshot import GitSnapshot, encode_promise
from crashsim.report.chart import Chart, Fate, MarkKind
from crashsim.report.chart_build import OVERVIEW_COLUMNS, FindingMismatch, build_chart
from crashsim.report.chart_json import chart_json
from crashsim.report.excerpt import excerpt
from crashsim.workloads.marks import START, step_mark
from tests.support.report_logs import DISK_BYTES, Story, busy_log, ext4_story
from tests.support.report_samples import finding


def fates(chart: Chart) -> dict[int, str]:
    return {write.number: write.fate.value for write in chart.writes}


@pytest.fixture
def small_log(tmp_path: Path) -> Log:
    """Events: W0 S C, flush1 S C, W2 S C, W3 S, mark, flush4 S, W3 C, flush4 C, W5 S C."""
    with LogWriter(tmp_path / "log", DISK_BYTES) as writer:
        story = Story(writer)
        story.write(0, 4096, "zero")  # 0, 1
        story.flush()  # 2, 3
        story.write(4096, 4096, "two")  # 4, 5
        three = story.write(8192, 8192, "three", done=False)  # 6
        writer.mark("promised")  # 7
        flush = writer.submit(Request(Operation.FLUSH))  # 8
        writer.complete(three)  # 9
        writer.complete(flush)  # 10
        story.write(0, 512, "", fua=True)  # 11, 12
    return Log.open(tmp_path / "log")


def small_finding(**changes: object) -> Finding:
    return finding(**{"cut": 11, "dropped": [], "needed": [], "writes": [], **changes})


def test_a_write_in_flight_at_a_flush_is_not_durable_by_it(small_log: Log) -> None:
    chart = build_chart(small_log, small_finding(dropped=[3]))

    assert fates(chart) == {0: "durable", 2: "durable", 3: "dropped", 5: "late"}
    assert [write.durable_at for write in chart.writes] == [3, 10, None, 12]
    assert [write.completed_at for write in chart.writes] == [1, 5, 9, 12]


def test_before_the_flush_is_answered_nothing_is_durable_by_it(small_log: Log) -> None:
    chart = build_chart(small_log, small_finding(cut=10, dropped=[2]))

    assert fates(chart) == {0: "durable", 2: "dropped", 3: "kept", 5: "late"}


def test_a_torn_write_says_what_was_kept(small_log: Log) -> None:
    torn = [TornResult(3, [0, 15])]
    notes = [WriteNote(3, 8192, 8192, "journal\x1b[2J")]

    chart = build_chart(small_log, small_finding(torn=torn, needed=[3], writes=notes))

    (write,) = chart.lost
    assert write.fate is Fate.TORN
    assert write.kept_units == (0, 15)
    assert write.needed
    assert write.what == r"journal\x1b[2J"


@pytest.mark.parametrize(
    "changes",
    [
        {"dropped": [0]},  # durable
        {"dropped": [2]},  # durable at 11
        {"dropped": [5]},  # after the cut
        {"dropped": [1]},  # a flush
        {"dropped": [6]},
        {"dropped": [-1]},
        {"torn": [TornResult(2, [0])]},
        {"cut": 14},
        {"cut": -1},
    ],
)
def test_a_finding_of_another_recording_is_refused(
    small_log: Log, changes: dict[str, object]
) -> None:
    with pytest.raises(FindingMismatch, match="recording"):
        build_chart(small_log, small_finding(**changes))


def test_a_disk_without_volatile_cache_loses_nothing_that_was_answered(small_log: Log) -> None:
    with pytest.raises(FindingMismatch):
        build_chart(small_log, small_finding(dropped=[3]), PROFILES["nvme-plp"])


def test_marks_are_told_apart(tmp_path: Path) -> None:
    texts = [START, step_mark("commit 1"), "HEAD is 1f3a", '{"crashsim":', '{"crashsim":["x"]}']
    with LogWriter(tmp_path / "log", DISK_BYTES) as writer:
        for text in texts:
            writer.mark(text)
        Story(writer).write(0, 4096, "")
    with Log.open(tmp_path / "log") as log:
        chart = build_chart(log, small_finding(cut=3))

    assert [mark.kind for mark in chart.marks] == [
        MarkKind.START,
        MarkKind.STEP,
        MarkKind.PROMISE,
        MarkKind.STEP,
        MarkKind.STEP,
    ]
    assert chart.marks[1].text == "commit 1"
    assert [mark.text for mark in chart.promises_before()] == ["HEAD is 1f3a"]


def test_a_promise_about_a_repository_is_named_by_its_step(tmp_path: Path) -> None:
    promise = encode_promise("commit 1", GitSnapshot(exists=False))
    with LogWriter(tmp_path / "log", DISK_BYTES) as writer:
        writer.mark(promise)
        writer.mark(promise[:-1])
    with Log.open(tmp_path / "log") as log:
        whole, damaged = build_chart(log, small_finding(cut=2)).promises_before()

    assert whole.text == "what commit 1 left behind stays"
    assert damaged.text == promise[:-1]


def test_an_empty_log_has_an_empty_chart(tmp_path: Path) -> None:
    LogWriter(tmp_path / "log", DISK_BYTES).close()
    with Log.open(tmp_path / "log") as log:
        chart = build_chart(log, small_finding(cut=0))

    assert chart.writes == ()
    assert [row.kind for row in excerpt(chart)] == ["crash"]
    assert chart_json(chart)["end"] == 1


def test_the_focus_is_the_last_epochs_and_what_was_lost(tmp_path: Path) -> None:
    log, found = busy_log(tmp_path / "log", 330)
    with log:
        chart = build_chart(log, found)

    start, end = chart.focus
    flushes = [flush for flush in chart.flushes if start <= flush.submitted_at < found.cut]
    assert 2 <= len(flushes) < len(chart.flushes) - 1
    assert start <= chart.promises_before()[-1].position
    assert start <= chart.lost[0].submitted_at < found.cut < end <= chart.end


def test_the_focus_reaches_back_to_a_lost_write_that_was_never_answered(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log", DISK_BYTES) as writer:
        story = Story(writer)
        lost = story.write(0, 4096, "", done=False)
        for count in range(40):
            story.write(4096 * (1 + count), 4096, "")
            story.flush()
        cut = writer.event_count
    with Log.open(tmp_path / "log") as log:
        assert build_chart(log, small_finding(cut=cut)).focus[0] > 100
        assert build_chart(log, small_finding(cut=cut, dropped=[lost])).focus[0] == 0


def test_a_long_log_is_drawn_in_part_and_counted_in_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crashsim.report.chart_build.WRITES_BEFORE_LIMIT", 500)
    log, found = busy_log(tmp_path / "log", 1500)
    early = log.requests.submitted_at[:1].tolist()
    with log:
        chart = build_chart(log, found)

    assert 400 < len(chart.writes) < 600
    assert chart.writes[0].submitted_at > early[0]
    assert sum(map(sum, chart.overview.values())) == int(log.requests.changes_media.sum())
    assert {len(column) for column in chart.overview.values()} == {OVERVIEW_COLUMNS}
    assert sum(chart.overview[Fate.DROPPED]) == 1


def test_the_table_has_the_crash_in_its_place_and_every_loss(tmp_path: Path) -> None:
    log, found = busy_log(tmp_path / "log", 600)
    far_back = log.submitted_before(found.cut) - 1
    with log:
        chart = build_chart(log, msgspec.structs.replace(found, dropped=[far_back]))
    rows = excerpt(chart)

    at = [row.kind for row in rows].index("crash")
    assert all(row.position < found.cut for row in rows[:at])
    assert all(row.position >= found.cut for row in rows[at:])
    assert [row.write.number for row in rows if row.write and row.write.fate is Fate.DROPPED] == [
        far_back
    ]


def test_the_table_says_what_each_flush_promised(small_log: Log) -> None:
    rows = excerpt(build_chart(small_log, small_finding(cut=10)))

    assert [row.words for row in rows if row.kind == "flush"] == [
        "flush 1, answered at event 3",
        "flush 4 was not answered before the cut: it promises nothing",
    ]


def test_json_columns_have_one_entry_a_write(tmp_path: Path) -> None:
    log, found = ext4_story(tmp_path / "log")
    with log:
        chart = build_chart(log, found)
    data = chart_json(chart)

    columns = {name: column for name, column in data["writes"].items() if name != "kept"}
    assert {len(column) for column in columns.values()} == {len(chart.writes)}
    lost = data["writes"]["number"].index(found.dropped[0])
    assert data["fates"][data["writes"]["fate"][lost]] == "dropped"
    assert data["strings"][data["writes"]["what"][lost]] == "data of .git/objects/1f/3a9c41d2e0"
    assert data["writes"]["submit"] == sorted(data["writes"]["submit"])

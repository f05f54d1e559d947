"""What is told of recoveries that were cut: sums, words, and no report that hides a violation."""

from xml.etree import ElementTree

import msgspec
import pytest
from rich.console import Console

from crashsim.campaigns.nested_result import (
    first_cut_result,
    nested_result,
    told_of_failure,
    told_of_second_cut,
)
from crashsim.campaigns.results import (
    DecidedBy,
    FirstCut,
    LogResult,
    NestedResult,
    RecoveryResult,
    RunResult,
    StatesResult,
)
from crashsim.disk.state import CrashState, TornWrite
from crashsim.oracles.protocol import Property
from crashsim.report.html import FindingView, run_page
from crashsim.report.junit import junit_xml
from crashsim.report.markdown import run_markdown
from crashsim.report.tables import render_run
from tests.support.report_samples import finding, run

FIRST = FirstCut(812, "commit-2", [7, 9], [])


def recovery(possible: int | None = 1000, inconclusive: str = "") -> RecoveryResult:
    return RecoveryResult(
        first_cut=FIRST,
        promises=3,
        pages_changed=12,
        log=LogResult(100, 20, 4096, 1),
        states=StatesResult(possible, 15, 20, DecidedBy(5, 1, 10, 4)),
        mount_states=9,
        violations=[],
        inconclusive=inconclusive,
    )


def nested(durable: int = 0, inconclusive: int = 0) -> NestedResult:
    return nested_result(
        [recovery(), recovery()],
        [{Property.DURABLE: (20, durable)}, {Property.DURABLE: (20, 0), Property.USABLE: (20, 0)}],
        [Property.DURABLE],
        sound_states=40,
        inconclusive=inconclusive,
    )


def test_recoveries_add_up() -> None:
    result = nested(durable=2)

    assert (result.recoveries, result.sound_states) == (2, 40)
    assert result.log == LogResult(200, 40, 8192, 2)
    assert result.states == StatesResult(2000, 30, 40, DecidedBy(10, 2, 20, 8))
    assert list(result.properties) == ["durable"], "only what was asked for"
    assert (result.properties["durable"].checked, result.properties["durable"].violations) == (
        40,
        2,
    )


def test_what_is_beyond_counting_stays_so() -> None:
    several = [recovery(), recovery(possible=None)]
    result = nested_result(several, [], [], sound_states=2, inconclusive=0)

    assert result.states.possible is None


def test_a_recovery_that_was_not_recorded_does_not_count_as_one() -> None:
    several = [recovery(), recovery(inconclusive="it does not mount any more")]
    result = nested_result(several, [], [], sound_states=2, inconclusive=1)

    assert (result.recoveries, result.states.explored, len(result.each)) == (1, 20, 2)


def test_a_nested_finding_says_that_the_recovery_was_cut() -> None:
    told = told_of_second_cut(finding(), FIRST, 6)

    assert told.id == f"nested-{finding().id}"
    assert told.first_cut == FIRST
    assert told.states == 6
    assert told.explanation[0] == (
        "The recovery from a first power cut (at event 812, in commit-2), which cost 2 writes, "
        "was itself cut: everything promised held after the first."
    )
    assert told.explanation[1:] == finding().explanation


def test_a_recovery_that_failed_by_itself_was_not_cut() -> None:
    told = told_of_failure(finding(property="usable", rule="recovery-failed"), 3)

    assert told.id == f"nested-{finding().id}"
    assert told.first_cut is None, "its own cut is the first one"
    assert "recovery failed" in told.explanation[0]
    assert told.states == 3


def test_a_first_cut_keeps_all_that_it_lost() -> None:
    state = CrashState.make(9, (4, 2), (TornWrite(3, (0, 5)),))

    told = first_cut_result(state, "gc")

    assert (told.cut, told.dropped, told.step) == (9, [2, 4], "gc")
    assert (told.torn[0].write, told.torn[0].kept_units) == (3, [0, 5])


def with_nested(result: NestedResult, **changes: object) -> RunResult:
    return msgspec.structs.replace(run(), nested=result, **changes)


def terminal(result: RunResult) -> str:
    console = Console(width=300, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(render_run(result))
    return captured.get()


def test_the_terminal_says_what_was_covered() -> None:
    told = terminal(with_nested(nested()))

    assert "2 recorded, of 40 sound crash states: 200 writes, 40 flushes" in told
    assert "40 states (18 of the mount; 2,000 possible, torn ones not counted), 30 dis" in told
    assert "no violation" in told
    assert "✓ every checked property held" in told


@pytest.mark.parametrize(
    ("result", "verdict"),
    [(nested(durable=2), "✗ violated: durable"), (nested(inconclusive=1), "? no violation seen")],
)
def test_a_run_is_not_clean_when_only_its_nested_states_are_not(
    result: NestedResult, verdict: str
) -> None:
    found = [told_of_second_cut(finding(property="durable"), FIRST, 2)]
    unclean = with_nested(result, findings=found if "✗" in verdict else [])

    told = terminal(unclean)
    root = ElementTree.fromstring(junit_xml(unclean))
    page = run_page(unclean, [FindingView(each) for each in unclean.findings])

    assert verdict in told
    assert "every property held" not in page
    if "✗" in verdict:
        case = root.find(".//testcase[@name='durable, recovery cut']/failure")
        assert case is not None
        assert "was itself cut" in (case.text or "")
        assert root.find(".//testcase[@name='durable']/failure") is None
        assert "in the recovery from a cut at event 812" in told
        assert "in the recovery from a cut at event 812" in page
        assert "was itself cut" in run_markdown(unclean)
    else:
        assert root.find(".//testcase[@name='conclusive']/error") is not None


def test_results_of_before_are_read_and_nested_ones_survive_the_trip() -> None:
    old = msgspec.json.decode(msgspec.json.encode(run()), type=dict)
    del old["nested"]
    assert msgspec.convert(old, RunResult) == run()

    new = with_nested(nested(durable=1))
    assert msgspec.json.decode(msgspec.json.encode(new), type=RunResult) == new

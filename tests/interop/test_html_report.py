"""The HTML report in a real browser: drawn, quiet, and deaf to hostile texts."""

from pathlib import Path

import pytest

from crashsim.report.chart import Fate
from crashsim.report.chart_build import build_chart
from crashsim.report.html import FindingView, finding_page, run_page
from tests.support import report_browser
from tests.support.report_browser import Element, Rendered, render
from tests.support.report_logs import busy_log, ext4_story
from tests.support.report_samples import finding, run, torn_finding

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        report_browser.browser() is None,
        reason=f"NO BROWSER, the page stays untested: install one of {report_browser.NAMES}",
    ),
]

HOSTILE = (
    "</script></textarea><img src=x onerror=\"document.documentElement.dataset.owned='img'\">"
    "<svg onload=\"document.documentElement.dataset.owned='svg'\"></svg>"
    "<script>document.documentElement.dataset.owned='script'</script>"
)


def story_view(directory: Path, hostile: str = "") -> FindingView:
    log, found = ext4_story(directory, hostile=hostile)
    with log:
        return FindingView(found, build_chart(log, found), run(violations={"intact": 3}))


def page_of(view: FindingView, tmp_path: Path) -> Path:
    page = tmp_path / "page.html"
    page.write_text(finding_page(view), encoding="utf-8")
    return page


def assert_ran(rendered: Rendered) -> None:
    root = rendered.elements[0]
    assert root.tag == "html"
    assert root.attributes.get("data-ready") == "true"
    assert root.attributes.get("data-script-errors") == "0"


def test_every_write_round_the_crash_is_drawn_with_its_fate(tmp_path: Path) -> None:
    view = story_view(tmp_path / "log")
    rendered = render(page_of(view, tmp_path))

    assert_ran(rendered)
    assert view.chart is not None
    start, end = view.chart.focus
    drawn = {
        int(element.attributes["data-write"] or ""): next(iter(element.classes - {"write"}))
        for element in rendered.with_class("write")
    }
    expected = {
        write.number: f"fate-{write.fate.value}"
        for write in view.chart.writes
        if start <= write.submitted_at < end
    }
    assert expected.items() <= drawn.items()
    assert "fate-dropped" in drawn.values()
    assert len(rendered.with_class("cross")) == 1 + 1  # the lost write, and the legend
    assert rendered.data("drawn-writes") == [str(len(drawn))]


def test_the_crash_the_flushes_and_the_promises_are_drawn(tmp_path: Path) -> None:
    view = story_view(tmp_path / "log")
    rendered = render(page_of(view, tmp_path))

    assert view.chart is not None
    assert rendered.data("cut") == [str(view.chart.cut)]
    assert len(rendered.data("flush")) >= 2
    assert rendered.data("mark")
    assert f"power cut before event {view.chart.cut}" in rendered.dom


def test_the_line_of_a_durable_write_ends_where_what_made_it_durable_ends(tmp_path: Path) -> None:
    view = story_view(tmp_path / "log")
    rendered = render(page_of(view, tmp_path))

    def right_edge(element: Element) -> float:
        return float(element.attributes["x"] or "") + float(element.attributes["width"] or "")

    assert view.chart is not None
    bars = [bar for bar in rendered.with_class("flush-bar") if bar.attributes["x"] != "4"]
    flush_ends = {round(right_edge(bar)) for bar in bars}
    ticks = [
        round(float((tick.attributes["d"] or "")[1:].split()[0]))
        for tick in rendered.with_class("tick")
        if "V" in (tick.attributes["d"] or "")
    ]
    start, _ = view.chart.focus
    durable = [
        write
        for write in view.chart.writes
        if write.fate is Fate.DURABLE and (write.durable_at or 0) >= start
    ]
    assert len(ticks) == len(durable) > 3
    own = sum(write.fua for write in durable)
    assert sum(tick in flush_ends for tick in ticks) == len(durable) - own


def test_the_row_of_the_lost_write_comes_first_and_is_named(tmp_path: Path) -> None:
    rendered = render(page_of(story_view(tmp_path / "log"), tmp_path))

    labels = rendered.with_class("row-label")
    assert "bad" in labels[0].classes
    assert not any("bad" in label.classes for label in labels[1:])


def test_a_torn_write_is_hatched(tmp_path: Path) -> None:
    log, found = ext4_story(tmp_path / "log")
    torn = torn_finding().torn[0]
    with log:
        lost = found.dropped[0]
        changed = finding(
            cut=found.cut, dropped=[], needed=[], torn=[type(torn)(lost, [0, 3])], writes=[]
        )
        view = FindingView(changed, build_chart(log, changed))
    rendered = render(page_of(view, tmp_path))

    assert_ran(rendered)
    (write,) = [e for e in rendered.with_class("write") if "fate-torn" in e.classes]
    assert write.attributes["data-write"] == str(lost)
    assert (
        "url(&quot;#chart-0-torn&quot;)" in rendered.dom or 'url("#chart-0-torn")' in rendered.dom
    )


def test_a_long_recording_is_drawn_round_the_crash_and_counted_as_a_whole(tmp_path: Path) -> None:
    log, found = busy_log(tmp_path / "log", 10_000)
    with log:
        view = FindingView(found, build_chart(log, found))
    page = page_of(view, tmp_path)
    rendered = render(page)

    assert_ran(rendered)
    assert page.stat().st_size < 1 << 20
    assert 10 < int(rendered.data("drawn-writes")[0]) < 400
    assert int(rendered.data("drawn-rows")[0]) <= 30
    assert len(rendered.with_class("bin")) > 100


@pytest.mark.parametrize(("width", "dark"), [(420, False), (1280, True)])
def test_it_draws_on_a_telephone_and_in_the_dark(tmp_path: Path, width: int, dark: bool) -> None:
    rendered = render(page_of(story_view(tmp_path / "log"), tmp_path), width=width, dark=dark)

    assert_ran(rendered)
    assert rendered.with_class("write")
    assert rendered.with_class("crash-line")


def test_each_finding_of_a_run_gets_its_own_picture(tmp_path: Path) -> None:
    views = [story_view(tmp_path / name) for name in ("a", "b")]
    page = tmp_path / "run.html"
    found = [view.finding for view in views]
    page.write_text(run_page(run(violations={"intact": 3}, findings=found), views))
    rendered = render(page)

    assert_ran(rendered)
    assert len(rendered.with_class("plot")) == 2
    assert len(rendered.data("cut")) == 2


def test_hostile_texts_do_not_run_and_are_shown(tmp_path: Path) -> None:
    view = story_view(tmp_path / "log", HOSTILE)
    untrusted = finding(
        detail=HOSTILE,
        explanation=[HOSTILE],
        subject=HOSTILE,
        cut=view.finding.cut,
        dropped=view.finding.dropped,
        writes=view.finding.writes,
    )
    page = page_of(FindingView(untrusted, view.chart, None, {"fsck": HOSTILE}), tmp_path)
    rendered = render(page)

    assert_ran(rendered)
    assert rendered.data("owned") == []
    assert [element for element in rendered.elements if element.tag == "img"] == []
    assert "&lt;img src=x" in rendered.dom


def test_the_policy_stops_a_script_even_if_one_got_in(tmp_path: Path) -> None:
    """The second line of defence, seen to work: the page with an element that must not be there."""
    page = page_of(story_view(tmp_path / "log"), tmp_path)
    smuggled = "<script>document.documentElement.dataset.owned='1'</script>"
    smuggled += "<img src='data:,' onerror=\"document.documentElement.dataset.owned='2'\">"
    page.write_text(page.read_text().replace("<main>", "<main>" + smuggled))
    rendered = render(page)

    assert_ran(rendered)
    assert rendered.data("owned") == []


def test_it_asks_the_network_for_nothing(tmp_path: Path) -> None:
    page = page_of(story_view(tmp_path / "log"), tmp_path)
    beacon = "http://crashsim-report.invalid/"

    assert "crashsim-report.invalid" not in report_browser.net_log(page, tmp_path / "net.json")

    # The log would have shown it: the same page with a link to follow.
    refresh = f'<meta http-equiv="refresh" content="0;url={beacon}">'
    page.write_text(page.read_text().replace("<title>", refresh + "<title>"))
    assert "crashsim-report.invalid" in report_browser.net_log(page, tmp_path / "net2.json")

"""The HTML page as text: escaping, its security policy, what it says."""

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from crashsim.report.chart_build import build_chart
from crashsim.report.html import FindingView, finding_page, matrix_page, run_page
from tests.support.report_logs import ext4_story
from tests.support.report_samples import finding, matrix, run, torn_finding

HOSTILE = '</script><img src=x onerror="document.title=1">\u202e&amp;{{7*7}}'


class Outline(HTMLParser):
    """Every start tag with its attributes, and the text inside of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": []}
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag in self.raw:
            self.raw[tag].append("")

    def handle_data(self, data: str) -> None:
        if self.cdata_elem in self.raw:
            self.raw[self.cdata_elem][-1] += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def hostile_view(tmp_path: Path) -> FindingView:
    log, found = ext4_story(tmp_path / "log", hostile=HOSTILE)
    with log:
        chart = build_chart(log, found)
    untrusted = finding(
        detail=HOSTILE,
        subject=HOSTILE,
        rule=HOSTILE,
        explanation=[HOSTILE],
        cut=found.cut,
        dropped=found.dropped,
        needed=found.needed,
        writes=found.writes,
    )
    return FindingView(untrusted, chart, run(fs=HOSTILE), {"fsck": HOSTILE}, f"{HOSTILE}.crashsim")


def test_hostile_texts_make_no_element_and_stay_readable(tmp_path: Path) -> None:
    page = finding_page(hostile_view(tmp_path))
    outline = Outline(page)

    assert outline.named("img") == []
    assert len(outline.named("script")) == 2
    assert not [1 for _, attributes in outline.tags if any(n.startswith("on") for n in attributes)]
    assert "{{7*7}}" in page
    assert "&lt;/script&gt;&lt;img src=x" in page
    assert "\u202e" not in page


def test_the_data_survives_its_trip_through_the_script_element(tmp_path: Path) -> None:
    view = hostile_view(tmp_path)
    data = json.loads(Outline(finding_page(view)).raw["script"][0])

    assert view.chart is not None
    assert data["marks"]["text"] == [mark.text for mark in view.chart.marks]
    assert any("</script><img" in text for text in data["marks"]["text"])
    assert data["writes"]["number"] == [write.number for write in view.chart.writes]


def test_the_policy_allows_exactly_our_script_and_style(tmp_path: Path) -> None:
    outline = Outline(finding_page(hostile_view(tmp_path)))
    (policy,) = [m["content"] for m in outline.named("meta") if "http-equiv" in m]

    def source(text: str) -> str:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        return f"'sha256-{digest}'"

    assert policy == (
        f"default-src 'none'; script-src {source(outline.raw['script'][1])}; "
        f"style-src {source(outline.raw['style'][0])}; base-uri 'none'; form-action 'none'"
    )
    assert not [1 for _, attributes in outline.tags if "style" in attributes]


def test_the_page_names_nothing_outside_of_itself(tmp_path: Path) -> None:
    outline = Outline(finding_page(hostile_view(tmp_path)))

    assert not [1 for _, a in outline.tags if {"src", "srcset", "data", "action"} & a.keys()]
    assert [a for a in outline.named("a") if not (a["href"] or "").startswith("#")] == []
    assert outline.named("link") == []
    assert re.findall(r"url\((?!['\"]?#)", "".join(outline.raw["style"])) == []


def test_a_finding_without_its_recording_says_so() -> None:
    page = finding_page(FindingView(finding(), missing="Its bundle is not here."))

    assert "Its bundle is not here." in page
    assert 'class="timeline"' not in page
    assert "crashsim repro intact-empty-loose-object-1.crashsim" in page


def test_a_crash_without_losses_says_that_the_cut_alone_does_it() -> None:
    page = finding_page(FindingView(finding(dropped=[], needed=[])))

    assert "Nothing was lost or torn" in page


@pytest.mark.parametrize("found", [finding(), torn_finding()])
def test_losses_are_listed_as_what_they_are(found: object) -> None:
    page = finding_page(FindingView(found))  # type: ignore[arg-type]

    assert ('<li class="torn">' in page) == (found == torn_finding())


def test_a_run_page_tells_clean_from_broken_from_inconclusive() -> None:
    assert "every property held in 2,504 crash states" in run_page(run(), [])
    assert "1 kind of finding in 2,504" in run_page(
        run(violations={"intact": 1}, findings=[finding()]), [FindingView(finding())]
    )
    inconclusive = run_page(run(inconclusive=4), [])
    assert "4 checks were inconclusive" in inconclusive
    assert "every property held" not in inconclusive


def test_a_matrix_page_has_a_row_a_cell() -> None:
    outline = Outline(matrix_page(matrix(), []))

    assert len(outline.named("tr")) == 1 + 27

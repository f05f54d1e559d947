"""Tables, Markdown and the picture: what a person reads must say what the result says."""

import io
import re
from typing import Literal
from xml.etree import ElementTree

import pytest
from rich.console import Console, ConsoleRenderable

from crashsim.campaigns.repro import Reproduction
from crashsim.campaigns.results import MatrixResult, PropertyResult
from crashsim.disk.state import CrashState
from crashsim.explore.verdict import Verdict
from crashsim.oracles.protocol import Property, Violation
from crashsim.report.markdown import escaped, matrix_markdown, run_markdown
from crashsim.report.reproduce import needed_writes, repro_command
from crashsim.report.reproduction import render_reproduction
from crashsim.report.tables import (
    render_finding,
    render_matrix,
    render_matrix_svg,
    render_run,
)
from tests.support.report_samples import finding, matrix, run, torn_finding


def printed(renderable: ConsoleRenderable, *, width: int = 100, terminal: bool = False) -> str:
    stream = io.StringIO()
    colours: Literal["auto", "standard"] = "standard" if terminal else "auto"
    console = Console(file=stream, width=width, force_terminal=terminal, color_system=colours)
    console.print(renderable)
    return stream.getvalue()


def test_the_matrix_fits_into_a_hundred_columns_with_nothing_cut() -> None:
    text = printed(render_matrix(matrix()))

    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text
    assert re.search(r"fs +core\.fsync +method +states +recoverable +intact +durable", text)
    assert re.search(r"^ ext4 +none +fsync +2,504 +· +611 +1,204 +· +87 +0 *$", text, re.M)
    assert len(re.findall(r"writeout-only", text)) == 9


def test_a_log_file_gets_no_escape_sequences_and_a_terminal_gets_colours() -> None:
    assert "\x1b" not in printed(render_matrix(matrix()))
    assert re.search("\x1b\\[1;31m *611", printed(render_matrix(matrix()), terminal=True))


def test_what_was_not_checked_is_no_dot() -> None:
    cell = run()
    cell.properties["usable"] = PropertyResult(checked=0, violations=0)
    del cell.properties["atomic"]

    text = printed(render_matrix(MatrixResult([cell])))

    assert re.search(r"2,504 +· +· +· +– +– +12", text)
    assert "– not checked" in text


def test_inconclusive_checks_are_never_silent() -> None:
    cell = run(inconclusive=3)

    assert re.search(r"2,504 \?3 ", printed(render_matrix(MatrixResult([cell]))))
    text = printed(render_run(cell))
    assert "3 inconclusive checks" in text
    assert "every checked property held" not in text


def test_a_run_says_what_was_covered_and_its_verdict() -> None:
    clean = printed(render_run(run()))
    broken = printed(render_run(run(violations={"intact": 3}, findings=[finding()])))

    assert "2,504 of more than 2⁵³ possible states" in clean
    assert "every prefix; up to 2 dropped; torn at 512" in clean
    assert "✓ every checked property held in every state explored" in clean
    assert "✗ violated: intact (1 kind of finding)" in broken
    assert "crashsim repro intact-empty-loose-object-1.crashsim" in broken


def test_a_finding_says_what_was_lost_and_how_to_replay_it() -> None:
    text = printed(render_finding(finding(dropped=[7, 9], needed=[7]), bundle="out dir/x.crashsim"))

    assert "lost       write 7: data of .git/objects/1f/3a9c (4 KiB at 512.03 MiB)" in text
    assert "also lost  write 9" in text
    assert "fsync of the object before its rename would have prevented it." in text
    assert "crashsim repro 'out dir/x.crashsim'" in text


def test_a_torn_write_is_called_torn() -> None:
    assert needed_writes(torn_finding()) == [("torn", 7)]
    assert "only 3 units reached the" in printed(render_finding(torn_finding()))


@pytest.mark.parametrize("hostile", ["\x1b]0;owned\x07", "[bold red]x[/]", "[/nope]", "\u202egnp"])
def test_texts_from_a_guest_are_shown_and_not_obeyed(hostile: str) -> None:
    """Markup that rich would obey, or choke on, and escapes that a terminal would obey."""
    untrusted = finding(
        detail=hostile, subject=hostile, explanation=[hostile], rule=hostile, step=hostile
    )
    text = printed(render_run(run(fs=hostile, findings=[untrusted], violations={"intact": 1})))

    visible = hostile.encode("unicode_escape").decode() if not hostile.isprintable() else hostile
    assert text.count(visible) >= 5
    assert not re.search("[\x1b\x07\u202e]", text)


def test_the_command_is_safe_to_paste() -> None:
    assert repro_command(finding(bundle="a; rm -rf ~")) == "crashsim repro 'a; rm -rf ~'"
    assert repro_command(finding(bundle=None)) == (
        "crashsim repro intact-empty-loose-object-1.crashsim"
    )


def test_markdown_has_one_row_a_cell_with_as_many_columns_as_the_head() -> None:
    rows = matrix_markdown(matrix()).splitlines()

    assert len(rows) == 2 + 27
    assert {row.count("|") for row in rows} == {11}
    assert rows[2] == "| ext4 | none | fsync | 2,504 | · | **611** | **1,204** | · | **87** | 0 |"


def test_markdown_shows_special_characters() -> None:
    assert escaped("a|b *c* <img> `d`") == r"a\|b \*c\* \<img\> \`d\`"
    text = run_markdown(run(fs="x|y", findings=[finding(detail="<script>")]))
    assert r"x\|y" in text
    assert r"intact: \<script\>" in text


def test_the_picture_is_the_same_each_time_and_calls_nobody() -> None:
    picture = render_matrix_svg(matrix())

    assert picture == render_matrix_svg(matrix())
    assert re.findall(r"https?://[^\"\s]+", picture) == ["http://www.w3.org/2000/svg"]
    root = ElementTree.fromstring(picture)
    words = "".join(root.itertext()).replace("\xa0", " ")
    assert "1,204" in words
    assert "writeout-only" in words


VIOLATION = Violation(Property.INTACT, "empty-loose-object", "objects/1f", "it is empty\x1b[2J")
OTHER = Violation(Property.DURABLE, "lost-promise", "HEAD", "it is not 1f3a")


@pytest.mark.parametrize(
    ("verdict", "same", "words"),
    [
        (Verdict((OTHER, VIOLATION)), VIOLATION, r"still there: it is empty\x1b[2J"),
        (Verdict((OTHER,)), None, "gone: intact empty-loose-object"),
        (Verdict((OTHER,), inconclusive="hung"), None, "undecided: intact empty-loose-object"),
    ],
)
def test_a_replay_says_whether_it_still_fails(
    verdict: Verdict, same: Violation | None, words: str
) -> None:
    outcome = Reproduction(CrashState.make(31, [7]), same, verdict)

    text = printed(render_reproduction(finding(dropped=[7, 9]), outcome))

    assert words in text
    assert "with write 9 restored:" in text
    assert "besides: durable lost-promise: it is not 1f3a" in text
    assert "besides: intact" not in text
    assert ("gone" in text) == (same is None and not verdict.inconclusive)
    assert "\x1b" not in text

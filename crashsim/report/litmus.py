"""Litmus tests in the terminal and in Markdown."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import ConsoleRenderable, Group
from rich.table import Table
from rich.text import Text

from crashsim.campaigns.litmus_model import AFTER, EVER
from crashsim.campaigns.litmus_result import (
    LitmusFilesystemResult,
    LitmusResult,
    LitmusTestResult,
    SeenOutcome,
    UnseenOutcome,
)
from crashsim.report.words import counted, printable, seconds_in_words

_RED, _GREEN, _QUIET = "bold red", "green", "dim"
_ONLY_DISTURBED = "°"
_FORBIDDEN = "✗"
_HEADINGS = {AFTER: "after all calls have returned", EVER: "at any moment"}
_STAGES = tuple(_HEADINGS)

GENERATED = "<!-- What follows is written by: crashsim litmus --markdown -->"
"""Everything below it in a page is replaced."""


def render_litmus(result: LitmusResult) -> ConsoleRenderable:
    """One line a test and filesystem: the outcomes after all calls have returned, and ever."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    for name in ("test", "on", *(_HEADINGS[stage] for stage in _STAGES)):
        table.add_column(name, overflow="fold", no_wrap=name == "on")
    for name, by_filesystem in _by_test(result):
        table.add_section()
        for number, (filesystem, test) in enumerate(by_filesystem):
            cells = [_cell(test, stage) for stage in _STAGES]
            table.add_row(
                Text("" if number else printable(name)), Text(printable(filesystem.fs)), *cells
            )
    legend = Text(
        f"{_ONLY_DISTURBED} only while an unrelated process syncs; "
        f"{_FORBIDDEN} not allowed by the model",
        _QUIET,
    )
    return Group(table, legend, *(_summary(each) for each in result.filesystems))


def _by_test(
    result: LitmusResult,
) -> Iterable[tuple[str, list[tuple[LitmusFilesystemResult, LitmusTestResult]]]]:
    names = [test.name for test in result.filesystems[0].tests]
    for index, name in enumerate(names):
        yield name, [(each, each.tests[index]) for each in result.filesystems]


def _cell(test: LitmusTestResult, stage: str) -> Text:
    words = Text()
    for each in test.seen:
        if each.stage == stage:
            words.append("  " if words else "")
            words.append(_in_words(each), _RED if each.allowed is False else "")
    return words


def _in_words(seen: SeenOutcome) -> str:
    sign = _FORBIDDEN if seen.allowed is False else ""
    return sign + printable(seen.outcome) + ("" if seen.alone else _ONLY_DISTURBED)


def _summary(filesystem: LitmusFilesystemResult) -> Text:
    words = Text.assemble((printable(filesystem.fs), "bold"), f": {_facts(filesystem)}")
    for name, seen in filesystem.forbidden:
        where = f"cut {seen.example.cut}, dropped {seen.example.dropped}"
        words.append(
            f"\n  {_FORBIDDEN} {name}: {printable(seen.outcome)} {_HEADINGS[seen.stage]}, in "
            f"variant {seen.example.variant} ({where})",
            _RED,
        )
    if filesystem.model is not None and not filesystem.forbidden:
        words.append("; all allowed", _GREEN)
    return words


def _facts(filesystem: LitmusFilesystemResult) -> str:
    unseen = sum(len(test.unseen) for test in filesystem.tests)
    facts = [
        f"{filesystem.runs} runs",
        f"{filesystem.states:,} crash states ({filesystem.recovered:,} recovered, the others known "
        "from equal ones)",
        seconds_in_words(filesystem.seconds),
    ]
    if filesystem.unmountable:
        facts.append(f"{counted(filesystem.unmountable, 'state')} did not mount")
    if filesystem.damaged:
        torn = counted(filesystem.damaged, "torn state")
        facts.append(f"{torn} left a file that cannot be read")
    if filesystem.inconclusive:
        facts.append(f"{counted(filesystem.inconclusive, 'state')} undecided")
    if filesystem.model is None:
        facts.append("no model for it")
    else:
        facts.append(f"model {filesystem.model}: {unseen} outcomes allowed and not seen")
    return ", ".join(facts)


def litmus_markdown(result: LitmusResult, before: str = "") -> str:
    """The tables of docs/litmus.md: outcomes by test and filesystem, then the models' looseness.

    :param before: a page that was written earlier: what it has above `GENERATED` stays.
    """
    above, marker, _ = before.partition(GENERATED)
    lines = [
        f"{above if marker else ''}{GENERATED}",
        "",
        "## What was seen",
        "",
        *_seen_table(result, AFTER),
        "",
        *_seen_table(result, EVER),
    ]
    lines += ["", "## Allowed by the model, and not seen", ""]
    lines += _unseen_table(result.filesystems)
    lines += ["", "## The runs", ""]
    lines += [f"- {each.fs}: {_facts(each)}" for each in result.filesystems]
    lines += ["", "## The tests", ""]
    for test in result.filesystems[0].tests:
        setup = f"`{'; '.join(test.setup)}`, made durable, then " if test.setup else ""
        lines.append(f"- **{test.name}**: {test.question}<br>{setup}`{'; '.join(test.calls)}`")
    return "\n".join(lines) + "\n"


def _seen_table(result: LitmusResult, stage: str) -> list[str]:
    lines = [
        f"### {_HEADINGS[stage].capitalize()}",
        "",
        _row(["test", *(each.fs for each in result.filesystems)]),
    ]
    lines.append(_row(["---"] * (1 + len(result.filesystems))))
    for name, by_filesystem in _by_test(result):
        cells = [
            "<br>".join(_in_markdown(each) for each in test.seen if each.stage == stage)
            for _, test in by_filesystem
        ]
        lines.append(_row([name, *cells]))
    return lines


def _in_markdown(seen: SeenOutcome) -> str:
    sign = f"{_FORBIDDEN} " if seen.allowed is False else ""
    return f"{sign}`{printable(seen.outcome)}`{'' if seen.alone else _ONLY_DISTURBED}"


def _unseen_table(filesystems: Sequence[LitmusFilesystemResult]) -> list[str]:
    lines = [_row(["test", *(each.fs for each in filesystems)])]
    lines.append(_row(["---"] * (1 + len(filesystems))))
    for index, test in enumerate(filesystems[0].tests):
        cells = [
            "<br>".join(_unseen_in_markdown(each) for each in filesystem.tests[index].unseen)
            for filesystem in filesystems
        ]
        if any(cells):
            lines.append(_row([test.name, *cells]))
    return lines


def _unseen_in_markdown(unseen: UnseenOutcome) -> str:
    return f"`{unseen.outcome}`{' after' if unseen.stage == AFTER else ''}"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"

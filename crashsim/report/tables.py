"""Runs, matrices and findings in the terminal, in Markdown and as a picture.

Everything is built from `Text` objects, never from markup strings: a mark or a path that looks like
rich markup, or holds escape sequences, is shown and not obeyed.
"""

import io
from collections.abc import Sequence

from rich import box
from rich.console import Console, ConsoleRenderable, Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from crashsim.campaigns.results import Finding, MatrixResult, PropertyResult, RunResult
from crashsim.oracles.protocol import Property
from crashsim.report.live import live_words
from crashsim.report.nested import (
    broken_names,
    first_cut_words,
    inconclusive_checks,
    nested_facts,
)
from crashsim.report.picture import SVG_FORMAT, TERMINAL_THEME
from crashsim.report.reproduce import needed_writes, repro_command, write_in_words
from crashsim.report.states import decided_words, possible_words
from crashsim.report.words import code_spans, counted, printable, seconds_in_words

PROPERTIES = tuple(property_.value for property_ in Property)
_PICTURE_COLUMNS = 100
_RED, _GREEN, _QUIET, _LOUD = "bold red", "green", "dim", "bold yellow"


def render_matrix(matrix: MatrixResult, *, title: str = "") -> ConsoleRenderable:
    """The matrix: one line a cell; violations by property, and the flushes that each cost."""
    table = Table(
        title=title or _matrix_title(matrix.cells),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        # One column of space less than usual: ten columns have to fit into a hundred.
        padding=(0, 1, 0, 0),
        header_style="bold",
    )
    for name in ("fs", "core.fsync", "method"):
        table.add_column(name, overflow="fold")
    for name in ("states", *PROPERTIES, "flushes"):
        table.add_column(name, justify="right", no_wrap=True)
    previous: RunResult | None = None
    for cell in matrix.cells:
        if previous is not None and cell.fs != previous.fs:
            table.add_section()
        table.add_row(*_matrix_row(cell, previous))
        previous = cell
    return Group(table, _legend(matrix.cells))


def _matrix_title(cells: Sequence[RunResult]) -> str:
    targets = sorted({printable(cell.target) for cell in cells})
    return f"{', '.join(targets)}: crash states that break a property"


def _matrix_row(cell: RunResult, previous: RunResult | None) -> list[Text]:
    same_fs = previous is not None and previous.fs == cell.fs
    same_fsync = same_fs and previous is not None and previous.fsync == cell.fsync
    states = Text(f"{cell.states.explored:,}")
    if cell.inconclusive:
        states.append(f" ?{cell.inconclusive:,}", _LOUD)
    flushes = "–" if cell.flushes_cost is None else f"{cell.flushes_cost:,}"
    return [
        Text("" if same_fs else printable(cell.fs), "bold cyan"),
        Text("" if same_fsync else printable(cell.fsync)),
        Text(printable(cell.method)),
        states,
        *(_count(cell.properties.get(name)) for name in PROPERTIES),
        Text(flushes, _QUIET if cell.flushes_cost is None else ""),
    ]


def _count(result: PropertyResult | None) -> Text:
    if result is None or not result.checked:
        return Text("–", _QUIET)
    if not result.violations:
        return Text("·", _GREEN)
    return Text(f"{result.violations:,}", _RED)


def _legend(cells: Sequence[RunResult]) -> Text:
    legend = Text("· holds in every state explored", _QUIET)
    if any(not _checked(cell, name) for cell in cells for name in PROPERTIES):
        legend.append("   – not checked")
    if any(cell.inconclusive for cell in cells):
        legend.append("   ?n n inconclusive checks", _LOUD)
    legend.append("   flushes: what the workload alone sent to the disk")
    return legend


def _checked(cell: RunResult, name: str) -> bool:
    return cell.properties.get(name, PropertyResult()).checked > 0


def render_run(run: RunResult) -> ConsoleRenderable:
    """One run: what was tested and covered, which properties held, each finding in words."""
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style=_QUIET, no_wrap=True)
    facts.add_column()
    for name, words in run_facts(run):
        facts.add_row(name, Text(words))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    table.add_column("property", no_wrap=True)
    table.add_column("states checked", justify="right")
    table.add_column("violations", justify="right")
    for name in property_names(run):
        result = run.properties[name]
        table.add_row(Text(printable(name)), f"{result.checked:,}", _count(result))
    told = _in_full(run.findings)
    panels = [Padding(render_finding(finding), (1, 0, 0, 0)) for finding in told]
    rest = [finding for finding in run.findings if finding not in told]
    if rest:
        panels.append(Padding(_in_short(rest), (1, 0, 0, 0)))
    return Group(_run_title(run), Padding(facts, (1, 0, 0, 0)), table, _run_verdict(run), *panels)


def _in_full(findings: Sequence[Finding]) -> list[Finding]:
    """The findings that a terminal has room for: the first of each property."""
    firsts = {finding.property: finding for finding in reversed(findings)}
    return [finding for finding in findings if firsts[finding.property] is finding]


def _in_short(findings: Sequence[Finding]) -> Table:
    """A line for each finding; the page and the bundles have the words."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold", title_justify="left")
    table.title = "and besides (crashsim report tells them in full)"
    table.add_column("finding", no_wrap=True)
    table.add_column("states", justify="right")
    table.add_column("what", overflow="ellipsis", no_wrap=True, ratio=1)
    for finding in findings:
        table.add_row(
            Text(printable(finding.id)), f"{finding.states:,}", Text(printable(finding.detail))
        )
    return table


def property_names(run: RunResult) -> list[str]:
    """The run's properties in the order of DESIGN 4.4, any other ones after them."""
    known = [name for name in PROPERTIES if name in run.properties]
    return known + sorted(set(run.properties) - set(known))


def run_facts(run: RunResult) -> list[tuple[str, str]]:
    """(name, words) lines about a run: machine, recording, coverage, how states were decided."""
    log, states, seconds = run.log, run.states, run.seconds
    facts = [
        ("machine", f"{run.machine.kind} ({run.machine.accel}), Linux {run.machine.kernel}"),
        (
            "recording",
            f"{counted(log.writes, 'write')}, {counted(log.flushes, 'flush', 'flushes')}, "
            f"{counted(log.marks, 'mark')}, {log.bytes / 2**20:.1f} MiB",
        ),
        (
            "explored",
            f"{states.explored:,} of {possible_words(states)} possible states, "
            f"{states.distinct:,} distinct images",
        ),
        ("coverage", states.coverage),
        ("decided by", decided_words(states.decided_by)),
        ("disturbed by", ", ".join(run.disturbances) or "nothing"),
        ("seed", str(run.seed)),
        (
            "time",
            f"{seconds_in_words(seconds.total)} (boot {seconds_in_words(seconds.boot)}, record "
            f"{seconds_in_words(seconds.record)}, explore {seconds_in_words(seconds.explore)}, "
            f"shrink {seconds_in_words(seconds.shrink)})",
        ),
    ]
    if run.flushes_cost is not None:
        facts.insert(2, ("cost", f"{counted(run.flushes_cost, 'flush', 'flushes')} undisturbed"))
    if run.live is not None:
        facts.insert(1, ("lives", live_words(run.live)))
    if run.nested is not None:
        facts[-3:-3] = nested_facts(run.nested)
    return [(name, printable(words)) for name, words in facts if words]


def _run_title(run: RunResult) -> Text:
    return Text.assemble(
        (printable(run.target), "bold"),
        " on ",
        (printable(run.fs), "bold cyan"),
        (f"  core.fsync={printable(run.fsync)}  core.fsyncMethod={printable(run.method)}", _QUIET),
    )


def _run_verdict(run: RunResult) -> Text:
    broken, inconclusive = broken_names(run), inconclusive_checks(run)
    if broken:
        names = printable(", ".join(broken))
        verdict = Text(
            f"✗ violated: {names} ({counted(len(run.findings), 'kind')} of finding)", _RED
        )
    elif inconclusive:
        verdict = Text("? no violation seen, but not everything could be decided", _LOUD)
    else:
        verdict = Text("✓ every checked property held in every state explored", f"bold {_GREEN}")
    if inconclusive:
        verdict.append(f"\n? {counted(inconclusive, 'inconclusive check')}", _LOUD)
    return verdict


def render_finding(finding: Finding, *, bundle: str | None = None) -> ConsoleRenderable:
    """A finding in words: what is broken, which write was lost, how to see it again.

    :param bundle: the bundle's path where it is known better than the finding does.
    """
    body: list[ConsoleRenderable] = [Text(printable(finding.detail), "bold")]
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style=_QUIET, no_wrap=True)
    facts.add_column(overflow="fold")
    facts.add_row("subject", Text(printable(finding.subject)))
    facts.add_row("crash", Text(_crash_in_words(finding)))
    for label, write in needed_writes(finding):
        facts.add_row(label, Text(printable(write_in_words(finding, write)), "red"))
    facts.add_row("blame", Text(printable(finding.blame)))
    body.append(Padding(facts, (1, 0)))
    body.extend(_sentence(sentence) for sentence in finding.explanation)
    if bundle or finding.bundle:
        command = printable(repro_command(finding, bundle))
        body.append(Padding(Text(command, "bold green"), (1, 0, 0, 0)))
    return Panel(
        Group(*body),
        title=Text(printable(f"{finding.property}: {finding.rule}"), _RED),
        title_align="left",
        subtitle=Text(printable(finding.id), _QUIET),
        subtitle_align="right",
        border_style="red",
        padding=(1, 2),
    )


def _sentence(sentence: str) -> Text:
    parts = ((printable(part), "cyan" if code else "") for code, part in code_spans(sentence))
    return Text.assemble(*parts)


def _crash_in_words(finding: Finding) -> str:
    step = f", in {finding.step}" if finding.step else ""
    if finding.first_cut is not None:
        step += f", {first_cut_words(finding.first_cut)}"
    return printable(
        f"power cut at event {finding.cut:,}{step}; "
        f"seen in {counted(finding.states, 'explored state')}"
    )


def render_matrix_svg(matrix: MatrixResult, *, title: str = "crashsim matrix") -> str:
    """The matrix as a picture of a terminal: SVG without any external resource."""
    console = Console(
        record=True,
        width=_PICTURE_COLUMNS,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    console.print(Padding(render_matrix(matrix), (0, 1)))
    # A fixed id: the same matrix must give the same file, for it is kept in a repository.
    return console.export_svg(
        title=title, theme=TERMINAL_THEME, code_format=SVG_FORMAT, unique_id="crashsim"
    )

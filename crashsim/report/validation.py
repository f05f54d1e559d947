"""A method's verdict in the terminal and in Markdown."""

from rich import box
from rich.console import ConsoleRenderable, Group
from rich.table import Table
from rich.text import Text

from crashsim.campaigns.validation import (
    Counterexample,
    OperationCost,
    ValidationResult,
    broken_by_the_method,
)
from crashsim.report.counterexamples import counterexamples_markdown
from crashsim.report.several_disks import split_markdown
from crashsim.report.tables import PROPERTIES
from crashsim.report.words import counted, printable

_GREEN, _RED, _YELLOW, _QUIET = "green", "bold red", "yellow", "dim"


def render_validation(result: ValidationResult) -> ConsoleRenderable:
    """Filesystem by property, what breaks, what each operation costs, and the verdict."""
    parts: list[ConsoleRenderable] = [_verdicts(result), _costs(result.cost)]
    for each in result.filesystems:
        for one in each.model.counterexamples:
            if one.property in each.refuted:
                parts.append(_counterexample(each.fs, one))
    parts.append(_summary(result))
    return Group(*parts)


def _table(title: str) -> Table:
    return Table(
        title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False
    )


def _verdicts(result: ValidationResult) -> Table:
    table = _table(f"{printable(result.method)}: crash states that break a property")
    for name in ("fs", "looked at"):
        table.add_column(name)
    for name in PROPERTIES:
        table.add_column(name, justify="right")
    for each in result.filesystems:
        table.add_row(
            Text(each.fs, "bold cyan"),
            Text(f"model: {each.model.distinct:,}"),
            *(
                _cell(each.model.broken.get(name, 0), name in each.claims, name in each.claims)
                for name in PROPERTIES
            ),
        )
        for run in each.runs:
            counts, broken = run.properties, broken_by_the_method(run)
            table.add_row(
                Text(""),
                Text(f"kernel: {run.states.explored:,}"),
                *(
                    _cell(
                        counts[name].violations if name in counts else 0,
                        name in each.claims,
                        name in each.claims and name in broken,
                    )
                    for name in PROPERTIES
                ),
            )
    return table


def _cell(broken: int, claimed: bool, refuted: bool) -> Text:
    if not broken:
        return Text("·", _GREEN if claimed else _QUIET)
    return Text(f"{broken:,}", _RED if refuted else _YELLOW)


def _costs(costs: list[OperationCost]) -> Table:
    table = _table("what each operation costs (in the model)")
    for name in ("operation", "flushes", "writeouts", "syncfs", "calls"):
        table.add_column(name, justify="left" if name == "operation" else "right")
    for cost in costs:
        table.add_row(
            cost.operation,
            str(cost.flushes),
            str(cost.writeouts),
            str(cost.filesystem_syncs),
            str(cost.calls),
        )
    return table


def _counterexample(fs: str, one: Counterexample) -> Text:
    text = Text("✗ ", _RED)
    text.append(f"{fs}, {one.property} ({one.rule}), after {', '.join(one.operations)}: ", "bold")
    text.append(printable(one.detail))
    for line in one.crash:
        text.append(f"\n    {printable(line)}", _QUIET)
    return text


def _summary(result: ValidationResult) -> Text:
    refuted = [
        f"{each.fs}: {', '.join(each.refuted)}" for each in result.filesystems if each.refuted
    ]
    states = sum(each.model.distinct for each in result.filesystems)
    runs = [run for each in result.filesystems for run in each.runs]
    covered = f"{counted(states, 'distinct crash state')} in the model"
    if runs:
        explored = sum(run.states.explored for run in runs)
        covered += f", {counted(explored, 'crash state')} on real kernels"
    if refuted:
        text = Text(f"✗ claims too much ({'; '.join(refuted)}); {covered}", _RED)
    else:
        text = Text(f"✓ holds what it claims; {covered}, {result.seconds:.1f} s", _GREEN)
    for each in result.filesystems:
        text.append(f"\n  {each.fs} may claim: {', '.join(each.holds) or 'nothing'}", _QUIET)
    return text


def validation_markdown(result: ValidationResult) -> str:
    """The verdict as a table, and what breaks, for docs/ and job summaries."""
    if result.split:
        return split_markdown([result])
    lines = [
        f"## {result.method}",
        "",
        "| | claims | broken in the model | broken on real kernels |",
        "|---|---|---|---|",
    ]
    for each in result.filesystems:
        broken = _counts(each.model.broken, each.model.distinct)
        kernel = {
            name: sum(
                run.properties[name].violations for run in each.runs if name in run.properties
            )
            for name in PROPERTIES
        }
        explored = sum(run.states.explored for run in each.runs)
        real = _counts(kernel, explored) if each.runs else "–"
        lines.append(f"| {each.fs} | {', '.join(each.claims) or '–'} | {broken} | {real} |")
    page = "\n".join(lines) + "\n"
    found = counterexamples_markdown(result)
    return f"{page}\n{found}" if found else page


def _counts(broken: dict[str, int], of: int) -> str:
    told = [f"{name} {broken[name]:,}" for name in PROPERTIES if broken.get(name)]
    return f"{', '.join(told) or 'nothing'} (of {of:,})"

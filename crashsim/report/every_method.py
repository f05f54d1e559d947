"""All methods in one table: what was looked at in the model, and what came of it."""

from collections.abc import Sequence

from rich import box
from rich.console import ConsoleRenderable, Group
from rich.table import Table
from rich.text import Text

from crashsim.campaigns.necessity import NecessityResult
from crashsim.campaigns.validation import ValidationResult
from crashsim.report.necessity import score
from crashsim.report.words import counted, printable

_GREEN, _RED, _YELLOW = "green", "bold red", "yellow"


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        table.add_column(name, justify="right" if name in _NUMBERS else "left", overflow="fold")
    return table


_NUMBERS = ("sequences", "possible", "crash states", "a second")


def render_validations(
    results: Sequence[ValidationResult], seconds: float, cpu_seconds: float
) -> ConsoleRenderable:
    """One line a method: sequences, ways to lose something, distinct crash states, the verdict."""
    table = _table("method", *_NUMBERS, "claims")
    for each in results:
        models = [one.model for one in each.filesystems]
        states = sum(model.distinct for model in models)
        refuted = ", ".join(
            f"{one.fs}: {' '.join(one.refuted)}" for one in each.filesystems if one.refuted
        )
        table.add_row(
            printable(each.method),
            f"{max(model.sequences for model in models):,}",
            f"{sum(model.possible for model in models):.2g}",
            f"{states:,}",
            f"{states / each.seconds:,.0f}",
            Text(f"✗ {refuted}", _RED) if refuted else Text("hold", _GREEN),
        )
    states = sum(one.model.distinct for each in results for one in each.filesystems)
    wrong = sum(not each.confirmed for each in results)
    text = f"{counted(states, 'crash state')} of {counted(len(results), 'method')}, "
    text += f"{counted(wrong, 'surprise')}; {seconds:.0f} s, {cpu_seconds:.0f} s of CPU time"
    return Group(table, Text(text, _RED if wrong else _GREEN))


def render_necessities(
    results: Sequence[NecessityResult], seconds: float, cpu_seconds: float
) -> ConsoleRenderable:
    """One line a method: how many of its syncs are shown to be needed."""
    table = _table("method", "syncs", "crash states")
    for each in results:
        style = _RED if each.refuted else _YELLOW if each.unneeded else _GREEN
        table.add_row(printable(each.method), Text(score(each), style), f"{each.states:,}")
    return Group(table, Text(f"{seconds:.0f} s, {cpu_seconds:.0f} s of CPU time"))

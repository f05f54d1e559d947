"""How the store takes system calls that fail, for a terminal."""

from rich.console import ConsoleRenderable, Group
from rich.table import Table
from rich.text import Text

from crashsim.campaigns.failing_operations import FailingCallsResult
from crashsim.report.words import printable

_SHOWN = 20


def render_failing_calls(result: FailingCallsResult) -> ConsoleRenderable:
    """How much was tried, and the first of what was wrong."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("operation")
    for name in ("system calls", "faults tried"):
        table.add_column(name, justify="right")
    for each in result.operations:
        table.add_row(printable(each.name), f"{each.calls:,}", f"{each.faults:,}")
    lines = [Text(f"✗ {printable(wrong)}") for wrong in result.wrong[:_SHOWN]]
    if len(result.wrong) > _SHOWN:
        lines.append(Text(f"and {len(result.wrong) - _SHOWN:,} more: see --json", "dim"))
    if not result.wrong:
        lines.append(Text("✓ every error was told, nothing was lost, nothing was in the way"))
    return Group(table, *lines)

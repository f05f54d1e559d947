"""What `crashsim bench` prints."""

from rich.console import ConsoleRenderable, Group
from rich.table import Table
from rich.text import Text

from crashsim.campaigns.benchmark import Benchmark


def render_benchmark(benchmark: Benchmark) -> ConsoleRenderable:
    """The figures, the ratios with their bounds, the notes."""
    table = Table(title=f"crashsim bench {benchmark.name}", title_justify="left")
    table.add_column("what")
    for heading in ("median", "least", "greatest"):
        table.add_column(heading, justify="right")
    table.add_column("unit")
    for row in benchmark.figures:
        table.add_row(
            row.name, f"{row.median:,.3g}", f"{row.least:,.3g}", f"{row.greatest:,.3g}", row.unit
        )
    ratios = Table.grid(padding=(0, 2))
    for ratio in benchmark.ratios:
        ratios.add_row(ratio.name, Text(f"{ratio.value:,.3f}", "bold"), ratio.bound)
    notes = [Text(note, "dim") for note in benchmark.notes]
    return Group(table, ratios, *notes)

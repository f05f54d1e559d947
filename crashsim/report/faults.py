"""What came of a disk that fails, for a terminal."""

from rich.console import ConsoleRenderable, Group
from rich.table import Table
from rich.text import Text

from crashsim.campaigns.results import FaultResult
from crashsim.report.words import counted, printable


def render_fault(fault: FaultResult) -> ConsoleRenderable:
    """How each step ended, and what a reboot shows."""
    failed = counted(len(fault.failed), "request failed", "requests failed")
    table = Table(title=f"--fault {printable(fault.fault)}: {failed}", box=None, pad_edge=False)
    table.add_column("step")
    table.add_column("exit code", justify="right")
    table.add_column("requests failed by then", justify="right")
    table.add_column("its last words")
    for each in fault.outcomes:
        words = printable(each.said) if each.code else "acknowledged"
        table.add_row(printable(each.step), str(each.code), str(each.failed_requests), words)
    lines = [f"afterwards: {printable(each)}" for each in fault.aftermath]
    lines += [f"after a reboot: {printable(each)}" for each in fault.reboot]
    if fault.inconclusive:
        lines.append(f"after a reboot: inconclusive: {printable(fault.inconclusive)}")
    elif not fault.reboot:
        lines.append("after a reboot: everything holds that was acknowledged")
    return Group(table, *(Text(line) for line in lines))

"""`crashsim doctor`: can this host run guests, and how?"""

import msgspec
from rich.table import Table

from crashsim.cli.arguments import JsonOption
from crashsim.cli.output import stdout, write_json
from crashsim.machines.health import Check, examine, runs_are_possible

EXIT_IMPOSSIBLE = 3


def doctor(json: JsonOption = None) -> int:
    """Look whether guests can run here: QEMU, KVM (tried, not trusted), image, tools, room.

    Ends with exit code 3 if they cannot.

    Example: crashsim doctor --json -
    """
    checks = examine()
    possible = runs_are_possible(checks)
    document = {"schema": "crashsim.doctor/1", "possible": possible, "checks": checks}
    write_json(msgspec.to_builtins(document), json)
    if str(json) != "-":
        stdout().print(_table(checks))
        verdict = "runs are possible" if possible else "runs are not possible"
        stdout().print(verdict, style="green" if possible else "bold red")
    return 0 if possible else EXIT_IMPOSSIBLE


def _table(checks: list[Check]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("")
    table.add_column("what")
    table.add_column("found", overflow="fold")
    for check in checks:
        bad = "[bold red]missing[/bold red]" if check.needed else "[yellow]note[/yellow]"
        table.add_row("[green]ok[/green]" if check.ok else bad, check.name, _plain(check.detail))
    return table


def _plain(text: str) -> str:
    return text.replace("[", r"\[")

"""What each sync is for: in the terminal and in Markdown."""

from rich import box
from rich.console import ConsoleRenderable, Group
from rich.table import Table
from rich.text import Text

from crashsim.campaigns.necessity import NecessityResult, Removal
from crashsim.report.words import counted, printable


def render_necessity(result: NecessityResult) -> ConsoleRenderable:
    """One line a sync: what breaks without it, on each filesystem."""
    filesystems = _filesystems(result)
    table = Table(
        title=f"{printable(result.method)}: what breaks without each sync",
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for name in ("in", "call", "of", *filesystems):
        table.add_column(name, overflow="fold")
    previous = ""
    for each in result.removals:
        table.add_row(
            "" if each.operation == previous else printable(each.operation),
            each.call,
            printable(each.path),
            *(_cell(each, name) for name in filesystems),
        )
        previous = each.operation
    return Group(table, _summary(result))


def necessity_markdown(result: NecessityResult) -> str:
    """The same as a table of Markdown, with its score."""
    filesystems = _filesystems(result)
    lines = [
        f"### {result.method}: {_score(result)}",
        "",
        f"| in | call | of | {' | '.join(filesystems)} |",
        f"|{'---|' * (3 + len(filesystems))}",
    ]
    for each in result.removals:
        cells = [", ".join(each.breaks.get(name, [])) or "·" for name in filesystems]
        path = printable(each.path).replace("|", "\\|")
        lines.append(f"| {each.operation} | {each.call} | `{path}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _filesystems(result: NecessityResult) -> list[str]:
    return list(dict.fromkeys(name for each in result.removals for name in each.breaks))


def _cell(removal: Removal, filesystem: str) -> Text:
    broken = removal.breaks.get(filesystem, [])
    if broken:
        return Text(", ".join(broken), "red")
    return Text("·", "dim" if removal.needed else "bold yellow")


def _score(result: NecessityResult) -> str:
    needed = len(result.removals) - len(result.unneeded)
    return f"{needed} of {counted(len(result.removals), 'sync')} shown to be needed"


def _summary(result: NecessityResult) -> Text:
    text = Text(f"{_score(result)}; {counted(result.states, 'crash state')}")
    for each in result.unneeded:
        text.append(
            f"\n  nothing broke without {each.call} of {printable(each.path)} in "
            f"{printable(each.operation)}",
            "yellow",
        )
    return text

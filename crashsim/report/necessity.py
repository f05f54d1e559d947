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
    for name in ("in", "call", "of", "after", *filesystems):
        table.add_column(name, overflow="fold")
    previous = ""
    for each in result.removals:
        table.add_row(
            "" if each.operation == previous else printable(each.operation),
            each.call,
            printable(each.path),
            printable(each.after),
            *(_cell(result, each, name) for name in filesystems),
        )
        previous = each.operation
    return Group(table, _summary(result))


def necessity_markdown(result: NecessityResult) -> str:
    """The same as a table of Markdown, with its score."""
    filesystems = _filesystems(result)
    lines = [
        f"### {result.method}: {score(result)}",
        "",
        f"| in | call | of | after | {' | '.join(filesystems)} |",
        f"|{'---|' * (4 + len(filesystems))}",
    ]
    for each in result.removals:
        cells = [_told(each, name) or "·" for name in filesystems]
        path = printable(each.path).replace("|", "\\|")
        after = f"`{printable(each.after)}`" if each.after else ""
        lines.append(
            f"| {each.operation} | {each.call} | `{path}` | {after} | {' | '.join(cells)} |"
        )
    return "\n".join(lines) + "\n"


def _told(removal: Removal, filesystem: str) -> str:
    """What breaks there; a dagger where it takes a bystander."""
    broken = ", ".join(removal.breaks.get(filesystem, []))
    return f"{broken} †" if broken and removal.by_bystander else broken


def _filesystems(result: NecessityResult) -> list[str]:
    return list(dict.fromkeys(name for each in result.removals for name in each.breaks))


def _cell(result: NecessityResult, removal: Removal, filesystem: str) -> Text:
    broken = _told(removal, filesystem)
    if broken:
        return Text(broken, "red")
    return Text("·", "bold yellow" if removal in result.unneeded else "dim")


def score(result: NecessityResult) -> str:
    """How many of a method's syncs are shown to be needed."""
    needed = len(result.removals) - len(result.unneeded)
    return f"{needed} of {counted(len(result.removals), 'sync')} shown to be needed"


def _summary(result: NecessityResult) -> Text:
    text = Text(f"{score(result)}; {counted(result.states, 'crash state')}")
    if any(each.needed and each.by_bystander for each in result.removals):
        text.append("\n  †: where another program syncs directories of the repository meanwhile")
    for each in result.unneeded:
        what = f"{each.call} of {printable(each.path)}"
        after = f" after {printable(each.after)}" if each.after else ""
        text.append(
            f"\n  nothing broke without {what}{after} in {printable(each.operation)}", "yellow"
        )
    for filesystem, broken in result.refuted.items():
        text.append(f"\n✗ {filesystem}: {', '.join(broken)} broke with all syncs", "bold red")
    return text

"""What came of consecutive lives, for a terminal."""

from collections.abc import Sequence

from rich.console import ConsoleRenderable, Group
from rich.table import Table
from rich.text import Text

from crashsim.campaigns.results import LifeResult, LiveResult
from crashsim.report.words import counted, printable

_LOSSES_SHOWN = 10


def live_words(live: LiveResult) -> str:
    """All lives in one sentence."""
    lost = live.promises - live.promises_held
    words = (
        f"{counted(live.lives, 'life', 'lives')} of "
        f"{counted(live.repositories, 'repository', 'repositories')}; "
        f"{live.promises_held:,} of {live.promises:,} promises held"
    )
    if lost:
        words += f" (lost after {counted(live.lives_with_loss, 'life', 'lives')}"
        words += f", never more than {live.deepest_loss:,} at a time"
        words += f"; of an earlier life's after {live.earlier_lost:,})"
    return words


def render_live(live: LiveResult) -> ConsoleRenderable:
    """The lives that lost something, and what was tidied up in between."""
    parts: list[ConsoleRenderable] = []
    losses = [life for life in live.each if life.violations]
    if losses:
        parts.append(_loss_table(losses))
    if len(losses) > _LOSSES_SHOWN:
        parts.append(Text(f"and {len(losses) - _LOSSES_SHOWN:,} more: see lives.jsonl", "dim"))
    if live.tidied:
        tidied = ", ".join(f"{printable(why)} {count:,}" for why, count in live.tidied.items())
        parts.append(Text(f"tidied up before going on: {tidied}", "dim"))
    return Group(*parts)


def _loss_table(losses: Sequence[LifeResult]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("life", "in", "writes lost", "promises", "violated"):
        table.add_column(name, justify="right" if name in ("life", "promises") else "left")
    for life in losses[:_LOSSES_SHOWN]:
        table.add_row(*_row(life))
    return table


def _row(life: LifeResult) -> tuple[str, ...]:
    torn = f", {life.torn} torn" if life.torn else ""
    return (
        f"{life.number:,}",
        printable(life.step) or "recovery",
        f"{life.dropped:,} of {life.pending:,}{torn}",
        f"{life.held:,} of {life.promises:,}",
        printable(", ".join(life.violations)),
    )

"""What every command prints through: stdout for results, stderr for progress and complaints."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from rich import progress as bars
from rich.console import Console

from crashsim.campaigns.options import Progress
from crashsim.errors import UsageError

stderr = Console(stderr=True)
MINIMUM_COLUMNS = 100


def stdout() -> Console:
    """The console for results; wide enough for the tables where stdout is not a terminal."""
    console = Console()
    return console if console.is_terminal else Console(width=max(console.width, MINIMUM_COLUMNS))


def complain(message: str) -> None:
    """Print one line about what went wrong."""
    stderr.print(
        f"[bold red]crashsim:[/bold red] {_escape(message)}", highlight=False, soft_wrap=True
    )


def _escape(text: str) -> str:
    return text.replace("[", r"\[")


def progress_bar() -> bars.Progress:
    """A progress display on stderr; it shows itself on a terminal only."""
    return bars.Progress(
        bars.SpinnerColumn(),
        bars.TextColumn("{task.description}"),
        bars.BarColumn(),
        bars.MofNCompleteColumn(),
        bars.TimeElapsedColumn(),
        console=stderr,
        disable=not stderr.is_terminal,
        transient=True,
    )


def write_json(result: Any, destination: Path | None) -> None:
    """Write `result` as JSON to a file, or to stdout for `-`; nothing where it is None."""
    if destination is None:
        return
    content = msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n"
    if str(destination) == "-":
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    try:
        destination.write_bytes(content)
    except OSError as error:
        raise UsageError(f"cannot write {destination}: {error.strerror}") from error


@contextmanager
def watching() -> Iterator[Progress]:
    """A progress display on stderr, as the callback that campaigns report to."""
    with progress_bar() as display:
        tasks: dict[str, bars.TaskID] = {}

        def progress(phase: str, done: int, total: int) -> None:
            if phase not in tasks:
                tasks[phase] = display.add_task(phase, total=None)
            display.update(tasks[phase], completed=done, total=total or None)

        yield progress

"""`crashsim validate --method all`: every installed method through the model."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import ConsoleRenderable

from crashsim.campaigns.every_method import (
    EveryMethod,
    Result,
    children_cpu_seconds,
    each_method,
)
from crashsim.campaigns.necessity import NecessityResult
from crashsim.campaigns.validation import ValidationResult
from crashsim.cli.arguments import EXIT_VIOLATION
from crashsim.cli.output import stderr, stdout, watching, write_json
from crashsim.report.every_method import render_necessities, render_validations
from crashsim.report.necessity import necessity_markdown
from crashsim.report.several_disks import split_markdown
from crashsim.report.validation import validation_markdown


def validate_all(
    options: Sequence[str], jobs: int, markdown: Path | None, json_file: Path | None
) -> int:
    """Hold each against its claims; `options` are those of each one's `crashsim validate`."""
    every = _each(ValidationResult, options, jobs)
    results = every.methods
    table = render_validations(results, every.seconds, every.cpu_seconds)
    split = any(each.split for each in results)
    page = (
        split_markdown(results)
        if split
        else "\n".join(validation_markdown(each) for each in results)
    )
    _tell(every, table, page, markdown, json_file)
    return 0 if all(each.confirmed for each in results) else EXIT_VIOLATION


def necessity_of_all(
    options: Sequence[str], jobs: int, markdown: Path | None, json_file: Path | None
) -> int:
    """Take the syncs of each away."""
    every = _each(NecessityResult, options, jobs)
    results = every.methods
    table = render_necessities(results, every.seconds, every.cpu_seconds)
    page = "\n".join(necessity_markdown(each) for each in results)
    _tell(every, table, page, markdown, json_file)
    return EXIT_VIOLATION if any(each.unneeded or each.refuted for each in results) else 0


def _each(kind: type[Result], options: Sequence[str], jobs: int) -> EveryMethod[Result]:
    started, spent = time.perf_counter(), children_cpu_seconds()
    with watching() as progress:
        results = each_method(kind, options, jobs, progress)
    return EveryMethod(results, time.perf_counter() - started, children_cpu_seconds() - spent)


def _tell(
    every: msgspec.Struct,
    table: ConsoleRenderable,
    page: str,
    markdown: Path | None,
    json_file: Path | None,
) -> None:
    write_json(every, json_file)
    (stderr if str(json_file) == "-" else stdout()).print(table)
    if markdown is not None:
        markdown.write_text(page)

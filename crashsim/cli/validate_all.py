"""`crashsim validate --method all`: every installed method through the model."""

import time
from collections.abc import Sequence
from pathlib import Path

from crashsim.campaigns.every_method import EveryMethod, children_cpu_seconds, each_method
from crashsim.campaigns.necessity import NecessityResult
from crashsim.campaigns.validation import ValidationResult
from crashsim.cli.arguments import EXIT_VIOLATION
from crashsim.cli.output import stderr, stdout, watching, write_json
from crashsim.report.every_method import render_necessities, render_validations
from crashsim.report.necessity import necessity_markdown
from crashsim.report.validation import validation_markdown


def validate_all(
    options: Sequence[str], jobs: int, markdown: Path | None, json_file: Path | None
) -> int:
    """Hold each against its claims; `options` are those of each one's `crashsim validate`."""
    started, spent = time.perf_counter(), children_cpu_seconds()
    with watching() as progress:
        results = each_method(ValidationResult, options, jobs, progress)
    every = EveryMethod(results, time.perf_counter() - started, children_cpu_seconds() - spent)
    write_json(every, json_file)
    tables = stderr if str(json_file) == "-" else stdout()
    tables.print(render_validations(results, every.seconds, every.cpu_seconds))
    if markdown is not None:
        markdown.write_text("\n".join(validation_markdown(each) for each in results))
    return 0 if all(each.confirmed for each in results) else EXIT_VIOLATION


def necessity_of_all(
    options: Sequence[str], jobs: int, markdown: Path | None, json_file: Path | None
) -> int:
    """Take the syncs of each away."""
    started, spent = time.perf_counter(), children_cpu_seconds()
    with watching() as progress:
        results = each_method(NecessityResult, options, jobs, progress)
    every = EveryMethod(results, time.perf_counter() - started, children_cpu_seconds() - spent)
    write_json(every, json_file)
    tables = stderr if str(json_file) == "-" else stdout()
    tables.print(render_necessities(results, every.seconds, every.cpu_seconds))
    if markdown is not None:
        markdown.write_text("\n".join(necessity_markdown(each) for each in results))
    return EXIT_VIOLATION if any(each.dispensable or each.refuted for each in results) else 0

"""What breaks under a method, and by which crash: Markdown for the pages on methods."""

import re
from collections.abc import Iterable, Sequence

from crashsim.campaigns.results import Finding, RunResult
from crashsim.campaigns.validation import Counterexample, ValidationResult, broken_by_the_method
from crashsim.report.markdown import escaped
from crashsim.report.tables import PROPERTIES
from crashsim.report.words import counted

_LINES = 4
"""So many lost operations of the smallest crash are told."""

_COUNTER = re.compile(r"[_-][0-9a-f]{4}_[0-9a-f]+\b")
"""What makes a temporary file's name unused, and differs from run to run."""

_Row = tuple[str, str, str, str]
"""A property, after which operations, the crash, and what it breaks."""


def counterexamples_markdown(result: ValidationResult) -> str:
    """The simplest crash for each property that breaks, whether the method claims it or not.

    Filesystems on which the same crash breaks the same thing share a line. Of a real kernel it is
    the first finding of that property.
    """
    where: dict[_Row, list[str]] = {}
    for each in result.filesystems:
        for row in (*_in_the_model(each.model.counterexamples), *_on_kernels(each.runs)):
            where.setdefault(row, []).append(each.fs)
    if not where:
        return ""
    lines = [
        f"What breaks `{result.method}`:",
        "",
        "| property | on | after | smallest crash | what is lost by it |",
        "|---|---|---|---|---|",
    ]
    for (name, after, crash, detail), filesystems in sorted(where.items(), key=_place):
        on = ", ".join(filesystems)
        lines.append(f"| {name} | {on} | {after} | {crash} | {detail} |")
    return "\n".join(lines) + "\n"


def _in_the_model(found: Sequence[Counterexample]) -> list[_Row]:
    rows = []
    for name in PROPERTIES:
        of_property = [each for each in found if each.property == name]
        if of_property:
            least = min(of_property, key=lambda each: (len(each.operations), each.lost))
            after = ", ".join(map(escaped, least.operations))
            rows.append((name, after, _crash(least), escaped(least.detail)))
    return rows


def _crash(found: Counterexample) -> str:
    """Each operation that is lost, without its number; the first line says where the power goes."""
    lost = [_COUNTER.sub("", line.strip().partition(": ")[2]) for line in found.crash[1:]]
    told = [f"`{line}`" for line in lost[:_LINES]]
    if len(lost) > _LINES:
        told.append(f"and {len(lost) - _LINES} more")
    return "<br>".join(told) or "nothing is lost: the power goes between two steps"


def _on_kernels(runs: Iterable[RunResult]) -> list[_Row]:
    first: dict[str, Finding] = {}
    for run in runs:
        broken = broken_by_the_method(run)
        for finding in run.findings:
            if finding.property in broken:
                first.setdefault(finding.property, finding)
    return [
        (name, escaped(found.step), f"kernel: {_dropped(found)}", escaped(found.detail))
        for name, found in first.items()
    ]


def _dropped(found: Finding) -> str:
    torn = f", {len(found.torn)} torn" if found.torn else ""
    if not found.dropped and not torn:
        return "a cut, and all that was sent before is there"
    return f"{counted(len(found.dropped), 'write')} dropped{torn}"


def _place(item: tuple[_Row, list[str]]) -> tuple[int, bool]:
    (name, _, crash, _), _ = item
    return PROPERTIES.index(name), crash.startswith("kernel")

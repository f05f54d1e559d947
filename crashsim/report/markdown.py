"""The matrix and runs as Markdown, for a README, a job summary or an issue."""

import re

from crashsim.campaigns.results import Finding, MatrixResult, PropertyResult, RunResult
from crashsim.report.reproduce import needed_writes, repro_command, write_in_words
from crashsim.report.tables import PROPERTIES, run_facts
from crashsim.report.words import code_spans, printable

_SPECIAL = re.compile(r"([\\`*_\[\]<>|~#&])")


def matrix_markdown(matrix: MatrixResult) -> str:
    """A table with one line a cell; `·` where a property held in every state explored."""
    lines = [
        f"| fs | core.fsync | method | states | {' | '.join(PROPERTIES)} | flushes |",
        f"|{':--|' * 3}{'--:|' * (len(PROPERTIES) + 2)}",
    ]
    for cell in matrix.cells:
        states = f"{cell.states.explored:,}"
        if cell.inconclusive:
            states += f" ({cell.inconclusive:,} inconclusive)"
        columns = [
            *map(escaped, (cell.fs, cell.fsync, cell.method)),
            states,
            *(_count(cell.properties.get(name)) for name in PROPERTIES),
            "–" if cell.flushes_cost is None else f"{cell.flushes_cost:,}",
        ]
        lines.append(f"| {' | '.join(columns)} |")
    return "\n".join(lines) + "\n"


def run_markdown(run: RunResult) -> str:
    """A run: its facts, its row of the matrix, and each finding in words."""
    lines = [
        f"### {escaped(run.target)} on {escaped(run.fs)}, "
        f"core.fsync={escaped(run.fsync)}, method {escaped(run.method)}",
        "",
        matrix_markdown(MatrixResult([run])),
        *(f"- {name}: {escaped(words)}" for name, words in run_facts(run)),
        "",
        *map(finding_markdown, run.findings),
    ]
    return "\n".join(lines)


def finding_markdown(finding: Finding) -> str:
    """A finding in words, and how to see it again."""
    lines = [f"#### {escaped(finding.property)}: {escaped(finding.detail)}", ""]
    for label, write in needed_writes(finding):
        lines.append(f"- {label}: {escaped(write_in_words(finding, write))}")
    lines += ["", *map(_sentence, finding.explanation)]
    lines += ["", f"    {printable(repro_command(finding))}", ""]
    return "\n".join(lines)


def _sentence(sentence: str) -> str:
    return "".join(
        f"`{printable(part)}`" if is_code else escaped(part)
        for is_code, part in code_spans(sentence)
    )


def escaped(text: str) -> str:
    """Text as Markdown that shows it literally, also inside a table."""
    return _SPECIAL.sub(r"\\\1", printable(text))


def _count(result: PropertyResult | None) -> str:
    if result is None or not result.checked:
        return "–"
    return f"**{result.violations:,}**" if result.violations else "·"

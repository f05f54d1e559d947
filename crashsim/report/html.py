"""One self-contained HTML page for a finding, a run or a matrix.

Texts of a recording come from an untrusted guest. Three things keep them from being more than text:
the templates escape everything, the script puts texts on the page by `textContent` only, and the
page's own content security policy names the one script and the one style that it may use by their
hashes, and nothing that it may load.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from crashsim import __version__
from crashsim.campaigns.results import Finding, MatrixResult, RunResult
from crashsim.report import tables
from crashsim.report.chart import Chart
from crashsim.report.chart_json import chart_json
from crashsim.report.excerpt import FATE_WORDS, ExcerptRow, excerpt
from crashsim.report.nested import broken_names, first_cut_words, inconclusive_checks
from crashsim.report.reproduce import needed_writes, repro_command, write_in_words
from crashsim.report.words import bytes_in_words, code_spans, counted, printable

_JSON_IN_HTML = str.maketrans(
    {"<": r"\u003c", ">": r"\u003e", "&": r"\u0026", "\u2028": r"\u2028", "\u2029": r"\u2029"}
)


@dataclass(frozen=True)
class FindingView:
    """A finding and what is known about it.

    :ivar chart: None where its recording is not at hand.
    :ivar run: the run that found it, where that is known.
    :ivar bundle: the bundle's path as the reader should type it.
    :ivar missing: why there is no chart, in words.
    """

    finding: Finding
    chart: Chart | None = None
    run: RunResult | None = None
    evidence: Mapping[str, str] = field(default_factory=dict)
    bundle: str | None = None
    missing: str = ""

    @property
    def command(self) -> str:
        """The command that replays it."""
        return repro_command(self.finding, self.bundle)

    @property
    def excerpt(self) -> list[ExcerptRow]:
        """The table beside the picture."""
        return [] if self.chart is None else excerpt(self.chart)

    @property
    def chart_json(self) -> Markup:
        """What the script draws, fit to stand in a script element."""
        data = None if self.chart is None else chart_json(self.chart)
        return Markup(json.dumps(data, separators=(",", ":")).translate(_JSON_IN_HTML))


def finding_page(view: FindingView) -> str:
    """The page of one finding."""
    return _render(title=view.finding.detail, findings=[view])


def run_page(run: RunResult, findings: Sequence[FindingView]) -> str:
    """The page of a run and its findings."""
    kinds = counted(len(findings), "kind of finding", "kinds of findings")
    target = f"{run.target} on {run.fs}"
    inconclusive = inconclusive_checks(run)
    if broken_names(run):
        title = f"{target}: {kinds} in {counted(run.states.explored, 'crash state')}"
    elif inconclusive:
        title = f"{target}: no violation seen, but {inconclusive:,} checks were inconclusive"
    else:
        title = f"{target}: every property held in {counted(run.states.explored, 'crash state')}"
    return _render(title=title, run=run, findings=findings)


def matrix_page(matrix: MatrixResult, findings: Sequence[FindingView]) -> str:
    """The page of a matrix and the findings of its cells."""
    states = sum(cell.states.explored for cell in matrix.cells)
    title = f"{counted(len(matrix.cells), 'cell')}, {counted(states, 'crash state')} explored"
    return _render(title=title, matrix=matrix, findings=findings)


def _render(
    *,
    title: str,
    findings: Sequence[FindingView],
    run: RunResult | None = None,
    matrix: MatrixResult | None = None,
) -> str:
    style, script = _resource("page.css"), _resource("timeline.js")
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            findings=findings,
            run=run,
            matrix=matrix,
            version=__version__,
            style=Markup(style),
            style_hash=_hash(style),
            script=Markup(script),
            script_hash=_hash(script),
        )
    )


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("crashsim.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        bytes_in_words=bytes_in_words,
        code_spans=code_spans,
        counted=counted,
        fate_words=FATE_WORDS,
        first_cut_words=first_cut_words,
        needed_writes=needed_writes,
        properties=tables.PROPERTIES,
        property_names=tables.property_names,
        run_chips=_run_chips,
        run_facts=tables.run_facts,
        write_in_words=write_in_words,
    )
    return environment


def _run_chips(run: RunResult) -> list[str]:
    return [
        run.target,
        run.fs,
        f"core.fsync={run.fsync}",
        f"core.fsyncMethod={run.method}",
        f"Linux {run.machine.kernel}",
    ]


def _visible(value: Any) -> Any:
    """Show control characters and the like as escapes; our own markup stays as it is."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return printable(value, keep_newlines=True)
    return value


def _resource(name: str) -> str:
    return (resources.files("crashsim.report") / "templates" / name).read_text("utf-8")


def _hash(text: str) -> str:
    """A source expression of a content security policy (CSP level 3, section 2.3.1)."""
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"

"""`crashsim report`: an earlier result or a bundle again, as tables, a page, JUnit or Markdown."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from crashsim.campaigns.results import MatrixResult, RunResult
from crashsim.cli.output import stdout
from crashsim.errors import UsageError
from crashsim.report.junit import junit_xml
from crashsim.report.loading import Report, load_report
from crashsim.report.markdown import finding_markdown, matrix_markdown, run_markdown
from crashsim.report.tables import (
    render_finding,
    render_matrix,
    render_matrix_svg,
    render_run,
)

EXAMPLES = """
Examples:

  crashsim report crashsim-out

  crashsim report crashsim-out/intact-1.crashsim --html finding.html

  crashsim report crashsim-out --junit junit.xml --markdown summary.md
"""


def report(
    path: Annotated[
        Path, typer.Argument(help="A bundle, or the directory that run or matrix wrote.")
    ],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a self-contained page (- = stdout).")
    ] = None,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write JUnit XML (- = stdout).")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write Markdown (- = stdout).")
    ] = None,
    svg: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the matrix (- = stdout)."),
    ] = None,
) -> int:
    """Show an earlier result or a bundle; without an option, on the terminal."""
    loaded = load_report(path)
    if html is not None:
        _write(loaded.page(), html)
    if junit is not None:
        _write(junit_xml(_result(loaded, path, "--junit")), junit)
    if markdown is not None:
        _write(_markdown(loaded), markdown)
    if svg is not None:
        _write(render_matrix_svg(_matrix(loaded, path)), svg)
    if not any((html, junit, markdown, svg)):
        _show(loaded)
    return 0


report.__doc__ = f"{report.__doc__}\n{EXAMPLES}"


def _show(loaded: Report) -> None:
    if isinstance(loaded.result, MatrixResult):
        stdout().print(render_matrix(loaded.result))
    elif loaded.result is not None:
        stdout().print(render_run(loaded.result))
        return
    for view in loaded.findings:
        stdout().print(render_finding(view.finding, bundle=view.bundle))


def _markdown(loaded: Report) -> str:
    if isinstance(loaded.result, MatrixResult):
        return matrix_markdown(loaded.result)
    if loaded.result is not None:
        return run_markdown(loaded.result)
    return finding_markdown(loaded.findings[0].finding)


def _result(loaded: Report, path: Path, option: str) -> RunResult | MatrixResult:
    if loaded.result is None:
        raise UsageError(f"{option} needs the result of a run or a matrix, and {path} is a bundle")
    return loaded.result


def _matrix(loaded: Report, path: Path) -> MatrixResult:
    result = _result(loaded, path, "--svg")
    return result if isinstance(result, MatrixResult) else MatrixResult([result])


def _write(text: str, destination: Path) -> None:
    if str(destination) == "-":
        sys.stdout.write(text)
        return
    try:
        destination.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {destination}: {error.strerror}") from error

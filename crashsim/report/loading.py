"""From a bundle, or the directory that a run or a matrix wrote, to what a report shows."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TypeVar

import msgspec

from crashsim.campaigns.results import Finding, MatrixResult, RunResult
from crashsim.disk.profile import DEFAULT_PROFILE, parse_profile
from crashsim.disk.recording import Recording
from crashsim.errors import UsageError
from crashsim.report.bundle import Bundle, read_bundle
from crashsim.report.chart import Chart
from crashsim.report.chart_build import build_chart
from crashsim.report.html import FindingView, finding_page, matrix_page, run_page

RUN_NAME = "run.json"
MATRIX_NAME = "matrix.json"
Result = TypeVar("Result", RunResult, MatrixResult)

_CHARTS_LIMIT = 12
"""A page with more pictures than this is too large to be opened with pleasure."""


class NothingToReport(UsageError):
    """The path is neither a bundle nor a directory with a result in it."""


@dataclass(frozen=True)
class Report:
    """What there is to report.

    :ivar result: None for a bundle; the run that a bundle is from is with its finding.
    :ivar findings: every finding, with its chart where the bundle is at hand.
    """

    result: RunResult | MatrixResult | None
    findings: tuple[FindingView, ...]

    def page(self) -> str:
        """The HTML page."""
        if isinstance(self.result, MatrixResult):
            return matrix_page(self.result, self.findings)
        if self.result is not None:
            return run_page(self.result, self.findings)
        return finding_page(self.findings[0])


def load_report(path: Path) -> Report:
    """Read a bundle, or the directory of a run or a matrix, or one with several runs in it.

    :raises NothingToReport: there is no result.
    :raises BundleDamaged: `path` itself is a bundle and it is no good. A damaged bundle of a
        directory only costs its picture: the page says why.
    """
    if not path.is_dir():
        return _bundle_report(path)
    result, cells = _read_result(path)
    findings = [(*cell, finding) for cell in cells for finding in cell[1].findings]
    views = (_directory_view(*each, number) for number, each in enumerate(findings))
    return Report(result, tuple(views))


def _bundle_report(path: Path) -> Report:
    with tempfile.TemporaryDirectory(prefix="crashsim-report-") as scratch:
        bundle = read_bundle(path, Path(scratch))
        view = FindingView(
            finding=bundle.finding,
            chart=_chart(bundle),
            run=bundle.run,
            evidence=bundle.evidence,
            bundle=str(path),
        )
    return Report(None, (view,))


def _chart(bundle: Bundle) -> Chart:
    recording = Recording.open(bundle.recording)
    device = recording.manifest.details.get("device", DEFAULT_PROFILE.name)
    with recording.log() as log:
        return build_chart(log, bundle.finding, parse_profile(str(device)))


def _read_result(
    directory: Path,
) -> tuple[RunResult | MatrixResult, list[tuple[Path, RunResult]]]:
    """The result, and each of its runs with the directory that its bundles are in."""
    if (directory / MATRIX_NAME).is_file():
        matrix = _decode(directory / MATRIX_NAME, MatrixResult)
        return matrix, [(directory, cell) for cell in matrix.cells]
    if (directory / RUN_NAME).is_file():
        run = _decode(directory / RUN_NAME, RunResult)
        return run, [(directory, run)]
    cells = [
        (path.parent, _decode(path, RunResult)) for path in sorted(directory.glob(f"*/{RUN_NAME}"))
    ]
    if not cells:
        raise NothingToReport(
            f"{directory} has neither {MATRIX_NAME} nor {RUN_NAME}, nor has a directory in it; "
            "give a bundle, or the directory that `crashsim run` or `crashsim matrix` wrote"
        )
    return MatrixResult([cell for _, cell in cells]), cells


def _decode(path: Path, kind: type[Result]) -> Result:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise NothingToReport(f"{path} is no result of crashsim: {error}") from error
    except OSError as error:
        raise NothingToReport(f"cannot read {path}: {error.strerror}") from error


def _directory_view(directory: Path, run: RunResult, finding: Finding, number: int) -> FindingView:
    path = next(_bundle_candidates(directory, finding), None)
    plain = FindingView(finding, run=run, bundle=None if path is None else str(path))
    if path is None:
        return replace(plain, missing="Its bundle is not here, so there is no picture of it.")
    if number >= _CHARTS_LIMIT:
        return replace(
            plain,
            missing="To keep this page small its picture was left out: make a page of its bundle.",
        )
    try:
        view = _bundle_report(path).findings[0]
    except UsageError as error:
        return replace(plain, missing=str(error))
    return replace(plain, chart=view.chart, evidence=view.evidence)


def _bundle_candidates(directory: Path, finding: Finding) -> Iterator[Path]:
    """Where the bundle may be: the result may have been moved together with its bundles."""
    parts = PurePosixPath(finding.bundle or "").parts
    if ".." in parts:
        return
    for count in range(len(parts), 0, -1):
        path = directory.joinpath(*parts[-count:])
        if path.is_relative_to(directory) and path.is_file():
            yield path

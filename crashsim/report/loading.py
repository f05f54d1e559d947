"""From a bundle, or the directory that a run or a matrix wrote, to what a report shows."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import msgspec

from crashsim.campaigns.results import Finding, MatrixResult, RunResult
from crashsim.disk.log import Log, LogDamaged
from crashsim.errors import UsageError
from crashsim.report.bundle import Bundle, BundleDamaged, read_bundle
from crashsim.report.chart import Chart, FindingMismatch, build_chart
from crashsim.report.html import FindingView, finding_page, matrix_page, run_page

RUN_NAME = "run.json"
MATRIX_NAME = "matrix.json"
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
    """Read a bundle or a result's directory.

    :raises NothingToReport: there is no result.
    :raises BundleDamaged: `path` itself is a bundle and it is no good. A damaged bundle of a
        directory only costs its picture: the page says why.
    """
    if not path.is_dir():
        return _bundle_report(path)
    result = _read_result(path)
    cells = result.cells if isinstance(result, MatrixResult) else [result]
    findings = [finding for cell in cells for finding in cell.findings]
    views = (_directory_view(path, finding, at) for at, finding in enumerate(findings))
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
    with Log.open(bundle.recording) as log:
        return build_chart(log, bundle.finding)


def _read_result(directory: Path) -> RunResult | MatrixResult:
    kinds: list[tuple[str, type[RunResult] | type[MatrixResult]]] = [
        (MATRIX_NAME, MatrixResult),
        (RUN_NAME, RunResult),
    ]
    for name, kind in kinds:
        try:
            return msgspec.json.decode((directory / name).read_bytes(), type=kind)
        except FileNotFoundError:
            continue
        except (msgspec.MsgspecError, RecursionError) as error:
            raise NothingToReport(
                f"{directory / name} is no result of crashsim: {error}"
            ) from error
        except OSError as error:
            raise NothingToReport(f"cannot read {directory / name}: {error.strerror}") from error
    raise NothingToReport(
        f"{directory} has neither {RUN_NAME} nor {MATRIX_NAME}; give a bundle, "
        "or the directory that `crashsim run --out` or `crashsim matrix --out` wrote"
    )


def _directory_view(directory: Path, finding: Finding, number: int) -> FindingView:
    path = next(_bundle_candidates(directory, finding), None)
    if path is None:
        return FindingView(finding, missing="Its bundle is not here, so there is no picture of it.")
    if number >= _CHARTS_LIMIT:
        return FindingView(
            finding,
            bundle=str(path),
            missing="To keep this page small its picture was left out: make a page of its bundle.",
        )
    try:
        view = _bundle_report(path).findings[0]
    except (BundleDamaged, FindingMismatch, LogDamaged) as error:
        return FindingView(finding, missing=str(error))
    return FindingView(finding, view.chart, None, view.evidence, str(path))


def _bundle_candidates(directory: Path, finding: Finding) -> Iterator[Path]:
    """Where the bundle may be: the result may have been moved together with its bundles."""
    parts = PurePosixPath(finding.bundle or "").parts
    if ".." in parts:
        return
    for count in range(len(parts), 0, -1):
        path = directory.joinpath(*parts[-count:])
        if path.is_relative_to(directory) and path.is_file():
            yield path

"""Putting results on the disk: a bundle for each finding, the result as JSON, the page."""

import shutil
from pathlib import Path

import msgspec

from crashsim.campaigns.results import MatrixResult, RunResult
from crashsim.campaigns.run import RunOutcome
from crashsim.report.bundle import SUFFIX, BundleNotWritten, write_bundle
from crashsim.report.loading import MATRIX_NAME, RUN_NAME, load_report

PAGE_NAME = "report.html"


def publish(outcome: RunOutcome) -> RunResult:
    """Write `<id>.crashsim` for each finding, `run.json` and `report.html`, in the run's directory.

    :returns: the result, its findings naming their bundles.
    :raises BundleNotWritten: the host has no room, or the directory is gone.
    """
    findings = []
    for case in outcome.cases:
        path = outcome.directory / f"{case.finding.id}{SUFFIX}"
        write_bundle(
            path,
            case.finding,
            case.recording,
            outcome.oracle,
            payload=outcome.payload,
            run=outcome.result,
            evidence=case.evidence,
        )
        shutil.rmtree(case.recording)  # it is in the bundle now
        findings.append(msgspec.structs.replace(case.finding, bundle=str(path)))
    result = msgspec.structs.replace(outcome.result, findings=findings)
    _write_result(outcome.directory, RUN_NAME, result)
    return result


def publish_matrix(matrix: MatrixResult, directory: Path) -> None:
    """Write `matrix.json` and `report.html`; the runs have been published before.

    :param matrix: of what `publish` returned for each run, so that its findings name their bundles.
    :raises BundleNotWritten: the host has no room, or the directory is gone.
    """
    _write_result(directory, MATRIX_NAME, matrix)


def _write_result(directory: Path, name: str, result: RunResult | MatrixResult) -> None:
    _write(directory / name, msgspec.json.format(msgspec.json.encode(result), indent=1))
    _write(directory / PAGE_NAME, load_report(directory).page().encode())


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise BundleNotWritten(f"cannot write {path}: {error.strerror}; make room") from error

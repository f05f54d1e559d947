"""What a run leaves on the disk."""

import shutil
from pathlib import Path

import msgspec
import pytest

from crashsim.campaigns.findings import Case
from crashsim.campaigns.results import Finding, MatrixResult, RunResult
from crashsim.campaigns.run import RunOutcome
from crashsim.disk.recording import Manifest
from crashsim.report.bundle import BundleNotWritten, read_bundle
from crashsim.report.loading import load_report
from crashsim.report.publish import publish, publish_matrix
from tests.support.report_logs import DISK_BYTES, ext4_story
from tests.support.report_samples import run


@pytest.fixture
def outcome(tmp_path: Path) -> RunOutcome:
    log, found = ext4_story(tmp_path / "case")
    log.close()
    manifest = msgspec.json.encode(Manifest(disk_size_bytes=DISK_BYTES))
    (tmp_path / "case" / "recording.json").write_bytes(manifest)
    directory = tmp_path / "git-ext4"
    directory.mkdir()
    unpublished = msgspec.structs.replace(found, bundle=None)
    return RunOutcome(
        result=run(violations={"intact": 3}, findings=[unpublished]),
        cases=(Case(unpublished, tmp_path / "case", {"fsck": "bad"}),),
        oracle={"kind": "git", "git_dir": ".git"},
        payload=None,
        directory=directory,
    )


def only_finding(result: RunResult) -> Finding:
    (finding,) = result.findings
    return finding


def test_the_result_names_bundles_that_can_be_read(tmp_path: Path, outcome: RunOutcome) -> None:
    result = publish(outcome)

    bundle = only_finding(result).bundle
    assert bundle is not None
    (tmp_path / "unpacked").mkdir()
    unpacked = read_bundle(Path(bundle), tmp_path / "unpacked")
    assert unpacked.finding == outcome.cases[0].finding
    assert unpacked.oracle == outcome.oracle
    assert unpacked.evidence == {"fsck": "bad"}
    assert unpacked.run == msgspec.structs.replace(outcome.result, findings=[])


def test_the_result_and_the_page_are_there(outcome: RunOutcome) -> None:
    result = publish(outcome)

    written = (outcome.directory / "run.json").read_bytes()
    assert msgspec.json.decode(written, type=RunResult) == result
    page = (outcome.directory / "report.html").read_text()
    assert 'class="timeline"' in page
    assert f"crashsim repro {only_finding(result).bundle}" in page


def test_a_directory_that_is_gone_is_a_failure_of_the_machinery(outcome: RunOutcome) -> None:
    shutil.rmtree(outcome.directory)

    with pytest.raises(BundleNotWritten, match="cannot write"):
        publish(outcome)


def test_a_matrix_is_published_beside_its_runs(tmp_path: Path, outcome: RunOutcome) -> None:
    result = publish(outcome)
    publish_matrix(MatrixResult([result, run(fs="xfs")]), tmp_path)

    (view,) = load_report(tmp_path).findings
    assert view.chart is not None
    assert 'class="matrix"' in (tmp_path / "report.html").read_text()

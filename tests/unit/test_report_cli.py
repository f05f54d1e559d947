"""`crashsim report` and the loading behind it, on real bundles and result directories."""

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from typer import Typer
from typer.testing import CliRunner

from crashsim.campaigns.results import Finding, MatrixResult
from crashsim.cli.report import report
from crashsim.disk.recording import Manifest
from crashsim.errors import UsageError
from crashsim.report.bundle import BundleDamaged, write_bundle
from crashsim.report.chart_build import FindingMismatch
from crashsim.report.loading import NothingToReport, load_report
from tests.support.report_logs import DISK_BYTES, ext4_story
from tests.support.report_samples import run

Invoke = Callable[..., str]


@pytest.fixture
def found(tmp_path: Path) -> Finding:
    log, found = ext4_story(tmp_path / "recording")
    log.close()
    manifest = msgspec.json.encode(Manifest(disk_size_bytes=DISK_BYTES))
    (tmp_path / "recording" / "recording.json").write_bytes(manifest)
    return found


@pytest.fixture
def bundle(tmp_path: Path, found: Finding) -> Path:
    out = tmp_path / "out"
    out.mkdir()
    path = out / f"{found.id}.crashsim"
    oracle = {"kind": "git"}
    write_bundle(path, found, tmp_path / "recording", oracle, run=run(), evidence={"fsck": "bad"})
    return path


@pytest.fixture
def result(bundle: Path, found: Finding) -> Path:
    named = msgspec.structs.replace(found, bundle=f"some/where/out/{bundle.name}")
    content = msgspec.json.encode(run(violations={"intact": 3}, findings=[named]))
    (bundle.parent / "run.json").write_bytes(content)
    return bundle.parent


@pytest.fixture
def invoke() -> Invoke:
    app = Typer()
    app.command()(report)

    def invoke(*arguments: str | Path) -> str:
        outcome = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if outcome.exception is not None and not isinstance(outcome.exception, SystemExit):
            raise outcome.exception
        return outcome.output

    return invoke


def test_a_bundle_becomes_a_page_with_its_run_and_evidence(bundle: Path, invoke: Invoke) -> None:
    page = bundle.parent / "page.html"
    invoke(bundle, "--html", page)

    text = page.read_text()
    assert 'class="timeline"' in text
    assert "<summary>fsck</summary>" in text
    assert "core.fsync=none" in text
    assert f"crashsim repro {bundle}" in text


def test_a_directory_becomes_tables_junit_markdown_and_a_picture(
    result: Path, invoke: Invoke
) -> None:
    assert "✗ violated: intact" in invoke(result)
    assert '<testsuites name="crashsim" tests="5" failures="1"' in invoke(result, "--junit", "-")
    assert "| ext4 | none | fsync | 2,504 |" in invoke(result, "--markdown", "-")
    assert invoke(result, "--svg", "-").startswith("<svg")
    assert 'class="timeline"' in invoke(result, "--html", "-")


def test_a_directory_that_was_moved_still_finds_its_bundles(result: Path) -> None:
    moved = result.rename(result.with_name("elsewhere"))

    (view,) = load_report(moved).findings
    assert view.chart is not None
    assert view.bundle == str(moved / f"{view.finding.id}.crashsim")


def test_a_damaged_bundle_of_a_directory_costs_only_its_picture(
    result: Path, bundle: Path, invoke: Invoke
) -> None:
    bundle.write_bytes(b"damaged")

    (view,) = load_report(result).findings
    assert view.chart is None
    assert "not a whole crashsim bundle" in view.missing
    assert "not a whole crashsim bundle" in invoke(result, "--html", "-")


def test_a_result_cannot_name_files_outside_of_its_directory(
    tmp_path: Path, bundle: Path, result: Path, found: Finding
) -> None:
    outside = bundle.rename(tmp_path / "outside.crashsim")
    for name in (str(outside), "../outside.crashsim", f"/{outside}"):
        named = msgspec.structs.replace(found, bundle=name)
        (result / "run.json").write_bytes(msgspec.json.encode(run(findings=[named])))
        (view,) = load_report(result).findings
        assert view.chart is None
        assert view.bundle is None


def test_a_directory_of_several_runs_is_shown_as_a_matrix(
    result: Path, tmp_path: Path, found: Finding, invoke: Invoke
) -> None:
    together = tmp_path / "together"
    for name in ("one", "two"):
        (together / name).mkdir(parents=True)
        (together / name / "run.json").write_bytes((result / "run.json").read_bytes())
    (together / "one" / "empty").mkdir()

    (result / "intact-empty-loose-object-1.crashsim").rename(together / "one" / "x.crashsim")
    named = msgspec.structs.replace(found, bundle="x.crashsim")
    (together / "one" / "run.json").write_bytes(msgspec.json.encode(run(findings=[named])))

    assert invoke(together, "--markdown", "-").count("| ext4 | none | fsync |") == 2
    assert [view.chart is not None for view in load_report(together).findings] == [True, False]


def test_a_chart_is_drawn_for_the_device_of_its_recording(tmp_path: Path, found: Finding) -> None:
    """Nothing that was answered can be lost by a disk without a volatile cache."""
    path = tmp_path / "recording" / "recording.json"
    manifest = Manifest(disk_size_bytes=DISK_BYTES, details={"device": "nvme-plp"})
    path.write_bytes(msgspec.json.encode(manifest))
    write_bundle(tmp_path / "x.crashsim", found, tmp_path / "recording", {"kind": "git"})

    with pytest.raises(FindingMismatch, match="cannot lose write"):
        load_report(tmp_path / "x.crashsim")


def test_a_matrix_directory_shows_the_table(result: Path, found: Finding, invoke: Invoke) -> None:
    cells = [run(), run(fs="xfs", violations={"intact": 1}, findings=[found])]
    (result / "matrix.json").write_bytes(msgspec.json.encode(MatrixResult(cells)))

    assert "core.fsync" in invoke(result)
    page = invoke(result, "--html", "-")
    assert 'class="matrix"' in page
    assert '<span class="chip">xfs</span>' in page


def test_a_finding_that_does_not_fit_its_recording_is_refused(
    tmp_path: Path, bundle: Path, found: Finding
) -> None:
    other = msgspec.structs.replace(found, cut=10_000)
    write_bundle(bundle, other, tmp_path / "recording", {"kind": "git"})

    with pytest.raises(FindingMismatch, match="outside of the recording"):
        load_report(bundle)


@pytest.mark.parametrize(
    ("prepare", "error"),
    [
        (lambda directory: directory, NothingToReport),
        (lambda directory: directory / "none.crashsim", BundleDamaged),
        (lambda directory: damaged(directory, b"{"), NothingToReport),
        (lambda directory: damaged(directory, b"[" * 100_000), NothingToReport),
        (lambda directory: damaged(directory, b'{"cells": 3}'), NothingToReport),
    ],
)
def test_what_cannot_be_reported_is_a_usage_error_of_one_line(
    tmp_path: Path, prepare: Callable[[Path], Path], error: type[UsageError]
) -> None:
    with pytest.raises(error) as raised:
        load_report(prepare(tmp_path))

    assert "\n" not in str(raised.value)


def damaged(directory: Path, content: bytes) -> Path:
    (directory / "run.json").write_bytes(content)
    return directory


def test_a_bundle_has_no_junit(bundle: Path, invoke: Invoke) -> None:
    with pytest.raises(UsageError, match="--junit needs the result of a run"):
        invoke(bundle, "--junit", "-")


def test_an_unwritable_target_is_a_usage_error(result: Path, invoke: Invoke) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        invoke(result, "--markdown", result / "no" / "such" / "directory")

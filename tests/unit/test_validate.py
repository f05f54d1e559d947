"""What `crashsim validate` concludes from the model and from runs on real kernels."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import crashsim.cli.validate as command
from crashsim.campaigns.methods import Method
from crashsim.campaigns.options import RunOptions
from crashsim.campaigns.results import RunResult
from crashsim.campaigns.validate import with_runs
from crashsim.campaigns.validation import FilesystemValidation, ModelResult, ValidationResult
from crashsim.cli.main import app
from crashsim.errors import UsageError
from crashsim.oracles.protocol import Property
from crashsim.workloads import git_steps
from tests.support.report_samples import finding, run

CLAIMS = {"btrfs": frozenset({Property.RECOVERABLE, Property.INTACT})}
METHOD = Method("mine", "my_methods:Mine", CLAIMS)


def confirmed() -> ValidationResult:
    """What the model says of a method that is right."""
    model = ModelResult("btrfs", 1, 10, 10, {})
    words = ["recoverable", "intact"]
    return ValidationResult(
        "mine", [FilesystemValidation("btrfs", words, model, [], words, [])], [], 0, 1.0
    )


def judged(*runs: RunResult) -> FilesystemValidation:
    return with_runs(confirmed(), METHOD, runs, 1.0).filesystems[0]


def broken(name: str, blame: str) -> RunResult:
    return run(fs="btrfs", violations={name: 3}, findings=[finding(property=name, blame=blame)])


def test_what_breaks_on_a_real_kernel_refutes_a_claim() -> None:
    assert judged(run(fs="btrfs")).refuted == []
    found = judged(run(fs="btrfs"), broken("intact", "application"))
    assert found.refuted == ["intact"]
    assert "intact" not in found.holds
    assert judged(broken("durable", "application")).refuted == []  # it was not claimed


def test_a_filesystem_that_does_not_mount_refutes_no_method() -> None:
    assert judged(broken("recoverable", "filesystem")).refuted == []
    assert judged(broken("recoverable", "application")).refuted == ["recoverable"]


def test_a_run_on_another_filesystem_says_nothing() -> None:
    elsewhere = run(fs="xfs", violations={"intact": 1}, findings=[finding(property="intact")])
    assert judged(elsewhere).refuted == []


Pass = tuple[tuple[str, ...], bool, int | None]


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[Pass]:
    """(sequences, disturbed, states) of each pass over the kernels."""
    made: list[Pass] = []

    def on_kernels(
        _method: Method, _fs: Sequence[str], sequences: Sequence[str], options: RunOptions, *_: Any
    ) -> list[RunResult]:
        made.append((tuple(sequences), bool(options.disturbances), options.states))
        return [broken("intact", "application")]

    monkeypatch.setattr(command, "find_method", lambda _: METHOD)
    monkeypatch.setattr(command, "validate_in_model", lambda *_: confirmed())
    monkeypatch.setattr(command, "prepare_machine", lambda *_: None)
    monkeypatch.setattr(command, "validate_on_kernels", on_kernels)
    return made


def validate(tmp_path: Path, *arguments: str) -> int:
    words = ["validate", "my_methods:Mine", "--fs", "btrfs", "--out", str(tmp_path)]
    return CliRunner().invoke(app, [*words, *arguments]).exit_code


def test_the_first_sequence_runs_disturbed_and_alone(passes: list[Pass], tmp_path: Path) -> None:
    assert validate(tmp_path) == 1
    assert passes == [(("each", "packs"), True, 150), (("each",), False, 150)]


def test_sequences_states_and_disturbances_can_be_chosen(
    passes: list[Pass], tmp_path: Path
) -> None:
    chosen = ("--sequence", "commit", "--states", "40", "--disturb", "none")
    assert validate(tmp_path, *chosen) == 1
    assert passes == [(("commit",), False, 40)]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a:B", "--method", "fsync"],
        ["--method", "fsync", "--sequence", "nonsense"],
        ["--method", "fsync", "--states", "few"],
        ["--method", "fsync", "--quick", "--states", "3"],
        ["--method", "fsync", "--quick", "--disturb", "none"],
        ["--method", "fsync", "--fs", "fat"],
        ["nowhere_at_all:Method"],
    ],
)
def test_bad_calls_are_refused_before_anything_runs(arguments: list[str]) -> None:
    ended = CliRunner().invoke(app, ["validate", *arguments])

    assert isinstance(ended.exception, UsageError)


@pytest.mark.parametrize("covers_state", [False, True])
def test_a_method_that_does_not_cover_head_is_not_held_to_it(covers_state: bool) -> None:
    method = Method("mine", "my_methods:Mine", CLAIMS, covers_state=covers_state)

    names = command._sequences(method, full=True)

    assert any(git_steps.sets_head(name) for name in names) == covers_state
    assert "each" in names

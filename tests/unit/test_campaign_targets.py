"""What the command line asks for becomes a target, or is refused in one sentence."""

from pathlib import Path

import pytest

from crashsim.campaigns.targets import (
    BadOracle,
    BadWorkloadFile,
    CommandChoice,
    choose_target,
    make_oracle,
)
from crashsim.errors import UsageError
from crashsim.oracles.command import CommandOracle
from crashsim.oracles.git import GitOracle
from crashsim.workloads.registry import TargetOptions

WORKLOAD = """
setup = "mkdir saved"
check = "true"
check_timeout_seconds = 3
payload = "programs"

[[step]]
name = "first"
run = "echo 1"

[[step]]
run = "echo 2"
"""


def test_git_is_the_target_when_none_is_named() -> None:
    target = choose_target(None, None, None, CommandChoice(), TargetOptions())

    assert target.name == "git"
    assert target.promise is not None
    assert isinstance(make_oracle(target.oracle, []), GitOracle)


def test_a_command_needs_a_check() -> None:
    with pytest.raises(UsageError, match="--check"):
        choose_target(None, None, ["true"], CommandChoice(), TargetOptions())


def test_a_check_needs_a_command() -> None:
    with pytest.raises(UsageError, match="go with a command"):
        choose_target("git", None, None, CommandChoice(check="true"), TargetOptions())


def test_a_workload_file_gives_steps_setup_check_and_payload(tmp_path: Path) -> None:
    (tmp_path / "workload.toml").write_text(WORKLOAD)

    target = choose_target(None, tmp_path / "workload.toml", None, CommandChoice(), TargetOptions())

    assert [step.name for step in target.workload.steps] == ["first", "step-2"]
    assert target.oracle == {"kind": "command", "check": "true", "timeout_seconds": 3}
    assert target.payload == tmp_path / "programs"
    assert isinstance(make_oracle(target.oracle, []), CommandOracle)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("check = 'true'", "no [[step]]"),
        ("[[step]]\nrum = 'true'", "step 1"),
        ("[[step]]\nrun = 1", "step 1"),
        ("[[step]]\nrun = 'true'\n[surprise]", "'surprise'"),
        ("not toml", "cannot read"),
    ],
)
def test_a_wrong_workload_file_is_told(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "workload.toml").write_text(content)

    with pytest.raises(BadWorkloadFile) as raised:
        choose_target(
            None,
            tmp_path / "workload.toml",
            None,
            CommandChoice(check="true"),
            TargetOptions(),
        )

    assert words in str(raised.value)


def test_a_missing_workload_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadWorkloadFile, match="No such file"):
        choose_target(None, tmp_path / "none.toml", None, CommandChoice(), TargetOptions())


@pytest.mark.parametrize(
    "description",
    [
        {},
        {"kind": "oracle of Delphi"},
        {"kind": "command", "check": 5, "timeout_seconds": 1},
        {"kind": "command", "check": "true", "timeout_seconds": 1e9},
        {"kind": "command", "check": "true", "timeout_seconds": float("nan")},
        {"kind": "git", "git_directory": "repo/.git", "worktree": "repo", "others": [1]},
        {"kind": "git", "git_directory": ["repo"], "worktree": "repo", "others": []},
    ],
)
def test_an_oracle_out_of_a_bundle_is_checked(description: dict[str, object]) -> None:
    with pytest.raises(BadOracle):
        make_oracle(description, [])

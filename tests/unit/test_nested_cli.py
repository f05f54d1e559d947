"""`crashsim run --depth` with input that makes no sense: one line, before anything starts."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from crashsim.cli.main import app
from crashsim.errors import UsageError

DEEP = ("--depth", "2")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--depth", "3"), "--depth takes 1"),
        (("--depth", "0"), "--depth takes 1"),
        (("--depth", "two"), "--depth takes 1"),
        ((*DEEP, "--nested-states", "none"), "--nested-states takes"),
        ((*DEEP, "--nested-states", "0"), "--nested-states takes"),
        ((*DEEP, "--cut", "live"), "--depth 2 goes with --cut replay"),
        ((*DEEP, "--fault", "write:3"), "--depth 2 goes with"),
        ((*DEEP, "--necessity"), "--depth 2 goes with"),
        ((*DEEP, "--recover", "true"), "go with a command"),
        (("--recover", "true", "--check", "true", "--", "true"), "--recover goes with --depth 2"),
    ],
)
def test_nonsense_is_refused_before_anything_starts(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    out = tmp_path / "out"
    ended = CliRunner().invoke(app, ["run", "--out", str(out), *arguments])

    assert isinstance(ended.exception, UsageError)
    assert ended.exception.exit_code == 2
    assert told in str(ended.exception)
    assert "\n" not in str(ended.exception)
    assert not out.exists()


def test_no_recovery_at_all_is_refused() -> None:
    assert CliRunner().invoke(app, ["run", *DEEP, "--recoveries", "0"]).exit_code == 2


def test_the_help_tells_of_it() -> None:
    told = CliRunner().invoke(app, ["run", "--help"], env={"COLUMNS": "200"}).stdout

    assert "--depth" in told
    assert "--nested-states" in told

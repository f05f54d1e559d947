"""`crashsim run --cut live` with input that makes no sense: one line, before anything starts."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from crashsim.cli.main import app
from crashsim.errors import UsageError

LIVE = ("--cut", "live")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--cut", "dead"), "unknown --cut"),
        (("--cut-at", "write:3"), "--cut-at goes with --cut live"),
        ((*LIVE, "--cut-at", "write:0"), "--cut-at takes"),
        ((*LIVE, "--cut-at", "mark:fly"), "no step of the kind 'fly'"),
        ((*LIVE, "--sequence", "synced", "--cut-at", "mark:stash"), "no step of the kind 'stash'"),
        ((*LIVE, "--sequence", "none"), "unknown sequence of lives"),
        ((*LIVE, "--necessity"), "--necessity"),
        ((*LIVE, "--check", "true", "--", "true"), "--target git or impl"),
    ],
)
def test_nonsense_is_refused_before_anything_starts(
    tmp_path: Path, arguments: tuple[str, ...], told: str
) -> None:
    out = tmp_path / "out"
    ended = CliRunner().invoke(app, ["run", "--out", str(out), *arguments])

    assert isinstance(ended.exception, UsageError)
    assert told in str(ended.exception)
    assert not out.exists()


def test_no_cut_at_all_is_refused() -> None:
    assert CliRunner().invoke(app, ["run", *LIVE, "--cuts", "0"]).exit_code == 2

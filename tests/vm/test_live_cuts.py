"""Repositories that live on after one power cut after the other."""

import json
import shutil
import signal
from pathlib import Path

import pytest

from crashsim.machines.qemu import QemuMachine
from tests.support.crashsim_command import Command, crashsim, read_json

pytestmark = pytest.mark.vm

GIT = ("run", "--target", "git", "--fs", "ext4", "--method", "fsync")
WHOLE = ("--property", "recoverable", "--property", "intact")


@pytest.mark.timeout(600)
def test_git_with_everything_synced_lives_on_and_an_earlier_life_is_never_lost(
    machine: QemuMachine, tmp_path: Path
) -> None:
    run = crashsim(
        tmp_path,
        *(*GIT, "--fsync", "all", "--sequence", "synced", *WHOLE),
        *("--cut", "live", "--cuts", "4", "--json", "result.json"),
    )

    assert run.returncode == 0, run.stdout + run.stderr
    result = read_json(tmp_path / "result.json")
    assert result["schema"] == "crashsim.run/1"
    live = result["live"]
    assert (live["lives"], live["cuts"], live["repositories"]) == (4, 4, 1)
    assert live["earlier_lost"] == 0
    assert [life["number"] for life in live["each"]] == [1, 2, 3, 4]
    assert [life["fresh"] for life in live["each"]] == [True, False, False, False]
    assert result["properties"]["intact"] == {"checked": 4, "violations": 0}
    assert result["findings"] == []
    directory = next((tmp_path / "crashsim-out").iterdir())
    assert [path.name for path in (directory / "lives").iterdir()] == ["00004"]
    assert len((directory / "lives.jsonl").read_text().splitlines()) == 4


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_git_without_fsync_loses_something_soon_and_its_bundle_replays(
    machine: QemuMachine, tmp_path: Path
) -> None:
    run = crashsim(
        tmp_path,
        *(*GIT, "--fsync", "none", *WHOLE, "--no-shrink", "--cut", "live", "--cuts", "6"),
        *("--json", "result.json"),
    )

    assert run.returncode == 1, run.stdout + run.stderr
    result = read_json(tmp_path / "result.json")
    assert result["live"]["promises_held"] < result["live"]["promises"]
    finding = result["findings"][0]
    assert finding["property"] in ("recoverable", "intact")
    bundle = shutil.copy(tmp_path / finding["bundle"], tmp_path / "case.crashsim")
    again = crashsim(tmp_path, "repro", str(bundle), "--json", "again.json")
    assert again.returncode == 1, again.stdout + again.stderr
    same = read_json(tmp_path / "again.json")["violations"]
    assert (finding["rule"], finding["subject"]) in [(one["rule"], one["subject"]) for one in same]


@pytest.mark.timeout(600)
def test_an_interrupted_run_leaves_its_notes_and_nothing_that_runs(
    machine: QemuMachine, tmp_path: Path
) -> None:
    command = Command(
        [*GIT, "--fsync", "all", "--cut", "live", "--cuts", "100000", "--no-shrink"], tmp_path
    ).start()
    notes = tmp_path / "crashsim-out" / "live-git-ext4-all-fsync" / "lives.jsonl"
    command.wait_until(lambda: notes.is_file() and notes.stat().st_size > 0)
    command.process.send_signal(signal.SIGINT)
    ended = command.finish()

    assert ended.returncode == 130, ended.stderr
    assert command.others() == {}
    assert json.loads(notes.read_text().splitlines()[0])["number"] == 1
    kept = sorted(path.name for path in (notes.parent / "lives").iterdir())
    assert 1 <= len(kept) <= 3

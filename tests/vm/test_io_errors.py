"""A disk that fails, in a real guest: what the program says, and what a reboot shows."""

from pathlib import Path

import pytest

from crashsim.campaigns.failed_syncs import probe_failed_syncs
from crashsim.machines.filesystems import parse_filesystem
from crashsim.machines.qemu import QemuMachine
from tests.support.crashsim_command import crashsim, read_json

pytestmark = [pytest.mark.vm, pytest.mark.slow]


def test_git_says_that_a_flush_failed_and_keeps_what_it_had_promised(
    machine: QemuMachine, tmp_path: Path
) -> None:
    run = crashsim(
        tmp_path,
        *("run", "--target", "git", "--sequence", "commit", "--fsync", "all"),
        *("--fault", "flush:2", "--disturb", "none", "--states", "5", "--json", "result.json"),
    )

    assert run.returncode == 0, run.stderr
    result = read_json(tmp_path / "result.json")
    fault = result["fault"]
    assert [each["operation"] for each in fault["failed"]] == ["FLUSH"]
    last = fault["outcomes"][-1]
    assert last["code"] == 128
    assert "Input/output error" in last["said"]
    assert fault["reboot"] == []
    assert result["states"]["explored"] > 0


def test_a_program_that_ignores_a_failed_fsync_is_caught(
    machine: QemuMachine, tmp_path: Path
) -> None:
    """It promises what its fsync has lost; a write of the data fails, everything else works."""
    write = "yes | head -c 65536 >value && { sync value || true; } && crashsim-mark value"
    run = crashsim(
        tmp_path,
        *("run", "--fs", "ext4", "--disturb", "none", "--states", "5", "--no-shrink"),
        *(
            "--check",
            'test ! -s "$CRASHSIM_PROMISES" || yes | head -c 65536 | cmp - value || exit 1',
        ),
        *("--fault", "write:1", "--json", "result.json", "--", "sh", "-c", write),
    )

    assert run.returncode == 1, run.stdout + run.stderr
    fault = read_json(tmp_path / "result.json")["fault"]
    assert [each["code"] for each in fault["outcomes"]] == [0]
    assert [each.partition(":")[0] for each in fault["reboot"]] == ["durable"]


def test_a_second_fsync_on_ext4_returns_0_and_has_written_nothing(
    machine: QemuMachine, tmp_path: Path
) -> None:
    probes = probe_failed_syncs(machine, [parse_filesystem("ext4")], tmp_path).probes

    by_name = {(each.fault, each.shape): each for each in probes}
    lost = by_name["data", "overwrite"]
    assert lost.told["fsync"] == "EIO"
    assert (lost.told["fsync again"], lost.told["read"]) == ("0", "new")
    assert lost.told["read without cache"] == lost.after_reboot == "old"
    assert lost.is_silent
    assert lost.anew_after_reboot == "more", "a new file is sound"
    assert by_name["flush", "create"].told["rewrite"] == "EROFS", "the journal is given up"

"""What a program's syncs are for, on real kernels, and that ours does what it claims on each."""

from pathlib import Path

import pytest

from crashsim.campaigns.needed_syncs import needed_syncs
from crashsim.campaigns.options import RunOptions
from crashsim.campaigns.run import run_campaign
from crashsim.campaigns.targets import CommandChoice, choose_target
from crashsim.machines.filesystems import parse_filesystem
from crashsim.machines.qemu import QemuMachine
from crashsim.workloads.registry import TargetOptions
from tests.support.crashsim_command import ROOT, crashsim, read_json

pytestmark = [pytest.mark.vm, pytest.mark.slow]


@pytest.mark.timeout(900)
def test_each_sync_of_the_config_writer_has_its_use(machine: QemuMachine, tmp_path: Path) -> None:
    """One save: the content before the name, and the name before the promise."""
    choice = CommandChoice(
        setup=None, check="config-check", payload=ROOT / "examples" / "config-writer"
    )
    target = choose_target(None, None, ["config-write", "1"], choice, TargetOptions())
    options = RunOptions(filesystem=parse_filesystem("xfs"), out=tmp_path, states=30).bare(tmp_path)
    outcome = run_campaign(target, options)
    assert outcome.result.findings == []

    result = needed_syncs(target, outcome.result, options)

    assert [(each.call, each.path, each.breaks) for each in result.removals] == [
        ("fsync", "config.json.tmp (no. 1)", {"xfs": ["durable"]}),
        ("fsync", "/ (no. 2)", {"xfs": ["durable"]}),
    ]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fs", ["ext4", "xfs", "btrfs", "f2fs"])
def test_each_operation_with_our_method(machine: QemuMachine, tmp_path: Path, fs: str) -> None:
    run = crashsim(
        tmp_path,
        *("run", "--target", "impl", "--sequence", "each", "--fs", fs, "--device", "4kn"),
        *("--fsync", "all", "--method", "paired-syncfs", "--states", "24", "--disturb", "fsync"),
        *("--no-shrink", "--json", "result.json"),
    )

    assert run.returncode == 0, run.stdout + run.stderr
    result = read_json(tmp_path / "result.json")
    assert result["states"]["explored"] == 24
    assert result["findings"] == []
    assert {name for name, counts in result["properties"].items() if counts["checked"]} == {
        *("recoverable", "intact", "durable", "atomic", "usable")
    }

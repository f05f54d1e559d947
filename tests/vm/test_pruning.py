"""Prunings change no verdict: on real filesystems, state for state."""

from pathlib import Path

import pytest

from crashsim.campaigns.explaining import Snapshots
from crashsim.campaigns.options import RunOptions, no_progress
from crashsim.campaigns.recording import open_target, record_target
from crashsim.campaigns.targets import CommandChoice, choose_target
from crashsim.explore.engine import LocalEngine
from crashsim.explore.exploring import Budget, explore
from crashsim.explore.verdict import PRUNINGS, DecidedBy
from crashsim.faults.disturbances import parse_disturbances
from crashsim.machines.filesystems import parse_filesystem
from crashsim.machines.qemu import QemuMachine
from crashsim.workloads.registry import TargetOptions

pytestmark = [pytest.mark.vm, pytest.mark.slow]

STATES = 60


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fs", ["ext4", "xfs", "btrfs", "xfs+objects", "xfs+log"])
def test_pruned_and_unpruned_runs_agree_state_by_state(
    machine: QemuMachine, tmp_path: Path, fs: str
) -> None:
    target = choose_target(
        "git", None, None, CommandChoice(), TargetOptions(fsync="none", sequence="commit", files=3)
    )
    options = RunOptions(
        filesystem=parse_filesystem(fs),
        out=tmp_path,
        disturbances=parse_disturbances(["fsync", "commit"], seed=0),
    )
    record_target(target, options, machine, tmp_path / "recording", no_progress, Snapshots())

    with open_target(target, options, tmp_path / "recording") as recorded:

        def verdicts(prunings: frozenset[DecidedBy]) -> tuple[object, int]:
            decider = recorded.decider(prunings)
            engine = LocalEngine(decider, lambda: recorded.recoverer(machine), 2)
            done = explore(decider, engine, Budget(states=STATES), 512)
            assert not done.inconclusive
            return done.verdicts, done.decided_by[DecidedBy.CHECK]

        pruned, checked = verdicts(PRUNINGS)
        unpruned, all_checked = verdicts(frozenset())

    assert all_checked == STATES
    assert checked < all_checked  # it is worth something
    assert pruned == unpruned

"""Two crash disks, cut at one instant: what breaks on them, what holds, what is refused.

The states that are looked at are the ones that one disk cannot have: at the end of each FLUSH of
one disk, and of the recording, that disk has everything and the other one what is durable, only.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from crashsim.campaigns.explaining import Snapshots
from crashsim.campaigns.options import RunOptions, no_progress
from crashsim.campaigns.recorded import Recorded
from crashsim.campaigns.recording import open_target, record_target
from crashsim.campaigns.run import run_campaign
from crashsim.campaigns.targets import CommandChoice, choose_target
from crashsim.disk.durability import pending
from crashsim.disk.log import NEVER
from crashsim.disk.request import Operation
from crashsim.disk.state import CrashState
from crashsim.machines.filesystems import parse_filesystem
from crashsim.machines.qemu import QemuMachine
from crashsim.oracles.protocol import Property
from crashsim.report.publish import publish
from crashsim.workloads.registry import TargetOptions
from tests.support.crashsim_command import crashsim

pytestmark = [pytest.mark.vm, pytest.mark.slow]

CUTS_MAX = 24
"""Of each disk; spread over the log."""

Broken = dict[Property, set[str]]


def lopsided(recorded: Recorded) -> Iterator[CrashState]:
    """States in which one of the disks has all that was sent to it, and the other one the least."""
    log, start = recorded.log, recorded.timeline.start
    requests, durable = log.requests, recorded.images.durable
    disks = requests.offset_bytes // log.disk_bytes
    for full in (0, 1):
        ends = requests.completed_at[(requests.operation == Operation.FLUSH) & (disks == full)]
        cuts = [*(ends[(ends > start) & (ends != NEVER)] + 1).tolist(), log.event_count]
        for cut in cuts[:: -(-len(cuts) // CUTS_MAX)]:
            lost = pending(log, cut, durable)
            yield CrashState.make(cut, lost[disks[lost] != full].tolist())


def broken(
    machine: QemuMachine, directory: Path, fs: str, program: str, method: str, sequence: str
) -> Broken:
    """The properties that such states break, with the rules."""
    target = choose_target(
        program,
        None,
        None,
        CommandChoice(),
        TargetOptions(fsync="all", method=method, sequence=sequence, files=3),
    )
    options = RunOptions(filesystem=parse_filesystem(fs), out=directory)
    record_target(target, options, machine, directory / "recording", no_progress, Snapshots())
    found: Broken = {}
    with open_target(target, options, directory / "recording") as recorded:
        check_both_disks(recorded)
        decider = recorded.decider()
        with recorded.recoverer(machine) as recoverer:
            for state in lopsided(recorded):
                recorded.images.check_legal(state)
                verdict = decider.decide(state, recoverer)
                assert not verdict.inconclusive
                for violation in verdict.violations:
                    found.setdefault(violation.property, set()).add(violation.rule)
    return found


def check_both_disks(recorded: Recorded) -> None:
    """Both are written to, and the set-up has left nothing behind on either."""
    log, start = recorded.log, recorded.timeline.start
    assert log.disks == 2
    assert pending(log, start, recorded.images.durable).tolist() == []
    after = log.requests.offset_bytes[log.requests.submitted_at > start]
    assert np.unique(after // log.disk_bytes).tolist() == [0, 1]


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("fs", "method"),
    [("ext4+objects", "fsync"), ("ext4+objects", "batch"), ("xfs+objects", "fsync")],
)
def test_one_flush_for_all_loses_objects_on_another_disk(
    machine: QemuMachine, tmp_path: Path, fs: str, method: str
) -> None:
    """git syncs no directory: one journal has the object's name before the index, two have not."""
    found = broken(machine, tmp_path, fs, "git", method, "commit")

    assert any(rule.endswith("object-missing") for rule in found[Property.INTACT])


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("fs", "method"), [("ext4+objects", "strict"), ("xfs+objects", "paired-syncfs")]
)
def test_a_method_that_syncs_both_holds(
    machine: QemuMachine, tmp_path: Path, fs: str, method: str
) -> None:
    assert broken(machine, tmp_path, fs, "impl", method, "commit") == {}


@pytest.mark.timeout(900)
@pytest.mark.parametrize("fs", ["xfs+log", "ext4+log:dioread_lock"])
def test_a_log_on_another_disk(machine: QemuMachine, tmp_path: Path, fs: str) -> None:
    """With its default, dioread_nolock, ext4 does not keep fsync there: docs/several-disks.md."""
    found = broken(machine, tmp_path, fs, "git", "fsync", "commit")

    assert found.keys() <= {Property.DURABLE, Property.USABLE}, found


@pytest.mark.timeout(900)
def test_a_bundle_has_both_disks(machine: QemuMachine, tmp_path: Path) -> None:
    target = choose_target(
        "git", None, None, CommandChoice(), TargetOptions(fsync="all", sequence="commit", files=2)
    )
    options = RunOptions(
        filesystem=parse_filesystem("xfs+objects"),
        out=tmp_path,
        properties=(Property.DURABLE,),
        states=12,
    ).bare(tmp_path)
    finding = publish(run_campaign(target, options, machine=machine)).findings[0]

    assert finding.bundle is not None
    again = crashsim(tmp_path, "repro", finding.bundle)
    assert again.returncode == 1, again.stdout + again.stderr
    assert "still there" in again.stdout


@pytest.mark.timeout(900)
def test_what_has_no_repository_has_no_objects_elsewhere(
    machine: QemuMachine, tmp_path: Path
) -> None:
    done = crashsim(tmp_path, "run", "--fs", "ext4+objects", "--check", "true", "--", "true")
    assert done.returncode == 2
    assert "take git or impl" in done.stderr

"""Explanations of what real kernels write, held against what recovery of the same log says."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from crashsim.disk.crash_disk import CrashStateDisk
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log
from crashsim.disk.state import CrashState
from crashsim.explain.blocks import Role
from crashsim.explain.boundaries import boundary_snapshots
from crashsim.explain.explain import Background, Case, explain
from crashsim.explain.files import Snapshot
from crashsim.explain.missing import MissingKind, what_was_missing
from crashsim.explain.survey import Survey, survey
from crashsim.explain.tracing import trace_workload
from crashsim.explain.trail import follow
from crashsim.faults.disturbances import EXCLUDE, Kind, make
from crashsim.machines.filesystems import FILESYSTEMS
from crashsim.machines.protocol import Guest
from crashsim.machines.qemu import QemuMachine
from crashsim.machines.tree import Tree
from crashsim.oracles.git.oracle import GitOracle
from crashsim.oracles.protocol import Moment, Property, Violation
from crashsim.workloads.command import CommandWorkload
from crashsim.workloads.git import GIT_DIRECTORY, git_workload
from crashsim.workloads.git_options import GitOptions
from crashsim.workloads.protocol import Step
from crashsim.workloads.record import record

pytestmark = [pytest.mark.vm, pytest.mark.slow]


@pytest.fixture(scope="module")
def machine() -> QemuMachine:
    return QemuMachine()


@pytest.fixture
def guest(machine: QemuMachine) -> Iterator[Guest]:
    with machine.start() as started:
        yield started


def tree_of(guest: Guest, disk: CrashStateDisk, fstype: str, state: CrashState) -> Tree:
    disk.show(state)
    recovery = guest.recover(FILESYSTEMS[fstype].mount(0), exclude=EXCLUDE)
    guest.unmount(0)
    assert recovery.tree is not None, recovery.mount_error
    return recovery.tree


WRITER = """
mkdir kept
i=0
while [ $i -lt 6 ]; do
    head -c $((i * 3000 + 100)) /dev/urandom >kept/new
    mv kept/new kept/file-number-$i
    i=$((i + 1))
done
"""


@pytest.mark.parametrize("fstype", sorted(FILESYSTEMS))
def test_every_write_has_a_name_and_every_file_its_inode(
    machine: QemuMachine, guest: Guest, fstype: str, tmp_path: Path
) -> None:
    """The inode numbers that the log's blocks tell are those that stat(2) tells after recovery."""
    workload = CommandWorkload.of_steps([Step("write", ("sh", "-ec", WRITER))])
    disturbances = make([Kind.FSYNC], seed=5)
    filesystem = FILESYSTEMS[fstype]
    recording = record(machine, workload, filesystem, tmp_path, disturbances=disturbances)
    with recording.log() as log:
        index = ImageIndex(log)
        surveyed = survey(
            index, fstype, boundary_snapshots(guest, index, filesystem.mount(0), "write")
        )
        guest.mount(filesystem.mount(0))
        listing = guest.run(["find", "/mnt/0/kept", "-type", "f", "-printf", "%f %i\\n"])
        inodes = {
            name: int(number)
            for name, number in (line.split() for line in listing.stdout.decode().splitlines())
        }
        assert len(inodes) == 6

        background = Background(surveyed, disturbances=disturbances)
        unnamed = [
            write.number
            for write in surveyed.writes.values()
            if any(block.role is Role.UNKNOWN for block in write.blocks)
            and "unrelated" not in surveyed.words(write.number, "", background.unrelated)
        ]
        found = {}
        for name in inodes:
            trail = follow(surveyed, surveyed.files.paths[f"kept/{name}"][-1])
            assert not trail.pages_missing or trail.inline
            assert trail.entries
            (found[name],) = {carrier.inode for carrier in trail.inodes}

        assert unnamed == []
        assert found == inodes


def test_a_lost_object_of_git_is_explained(
    machine: QemuMachine, guest: Guest, tmp_path: Path
) -> None:
    """The write that is named is the one that is to blame, and the call is the one missing."""
    whole = git_workload("commit", options=GitOptions(fsync="none"), files=3, seed=9)
    workload = replace(whole, steps=whole.steps[:2])
    # It only appends: the fsync of a directory also commits, and leaves no data to know it by.
    disturbances = [
        replace(each, parameters={**each.parameters, "replace_percent": 0})
        for each in make([Kind.FSYNC], seed=5)
    ]
    filesystem = FILESYSTEMS["ext4"]
    snapshots: list[Snapshot] = []

    def keep(step: str, tree: Tree) -> str:
        snapshots.append(Snapshot(step, tree))
        return f"{step} is done"

    recording = record(
        machine, workload, filesystem, tmp_path, disturbances=disturbances, promise=keep
    )
    trace = trace_workload(machine, workload, filesystem)
    with recording.log() as log:
        index = ImageIndex(log)
        disk = CrashStateDisk(index)
        guest.attach(0, disk)
        surveyed = survey(index, "ext4", snapshots)
        cut, violation = _first_lost_object(guest, disk, surveyed)
        background = Background(surveyed, trace, disturbances, workload.git_directories)

        explanation = explain(
            Case(
                CrashState(cut),
                violation,
                recovered=tree_of(guest, disk, "ext4", CrashState(cut)),
            ),
            background,
        )

        broken, entry, data, call, advice = explanation.sentences
        path = violation.subject
        assert re.match(rf"After recovery `{re.escape(path)}` \(\w+.*\) is empty \(0 bytes", broken)
        assert "ext4's journal commit block" in entry
        assert "forced by an unrelated process's fsync" in entry
        assert re.match(r"`git .*` never synced `.*/tmp_obj_\w+` before link gave it its", call)
        assert "`core.fsync=loose-object`" in advice
        (blamed,) = map(int, re.findall(r"Its data \(write (\d+)\) was not on the disk", data))
        note = next(note for note in explanation.notes if note.write == blamed)
        assert note.what.startswith(f"data of {path} (page 1 of ")
        _check_blame(guest, disk, log, path, blamed, snapshots)
        missing = what_was_missing(trace, path)
        assert missing.kind is MissingKind.NEVER_SYNCED


def _first_lost_object(
    guest: Guest, disk: CrashStateDisk, surveyed: Survey
) -> tuple[int, Violation]:
    """The first cut after a journal commit at which the oracle finds a loose object lost."""
    oracle = GitOracle([mark.text for mark in surveyed.log.marks], GIT_DIRECTORY, "repo")
    for write in surveyed.writes.values():
        if not any(block.role is Role.COMMIT for block in write.blocks):
            continue
        cut = int(surveyed.durable[write.number])
        tree = tree_of(guest, disk, "ext4", CrashState(cut))
        for violation in oracle.judge(tree, Moment(())):
            if violation.property in (Property.INTACT, Property.USABLE):
                assert violation.subject.startswith(f"{GIT_DIRECTORY}/objects/")
                return cut, violation
    raise AssertionError("no state of this recording has lost an object")


def _check_blame(
    guest: Guest,
    disk: CrashStateDisk,
    log: Log,
    path: str,
    blamed: int,
    snapshots: list[Snapshot],
) -> None:
    """With everything up to the blamed write the object is whole once its inode came; without that
    write alone it is not, whatever else is there."""
    end = log.event_count
    whole = snapshots[-1].tree.nodes[path]
    assert tree_of(guest, disk, "ext4", CrashState(end)).nodes[path] == whole
    without = CrashState(end, frozenset({blamed}))
    assert tree_of(guest, disk, "ext4", without).nodes[path].digest != whole.digest

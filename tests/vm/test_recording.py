"""Recordings of real workloads in real guests, checked by their logs and by what they replay to."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from crashsim.campaigns.prepared_machine import with_payload
from crashsim.disk.crash_disk import CrashStateDisk
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log
from crashsim.disk.recording import Recording
from crashsim.disk.state import CrashState
from crashsim.faults.disturbances import DEFAULT, EXCLUDE, Disturbance, Kind, make
from crashsim.machines.filesystems import FILESYSTEMS, parse_filesystem
from crashsim.machines.protocol import Machine, Mount
from crashsim.machines.qemu import QemuMachine
from crashsim.machines.tree import Tree
from crashsim.workloads.command import command_workload
from crashsim.workloads.figures import Figures, figures
from crashsim.workloads.git import git_workload
from crashsim.workloads.git_options import GitOptions
from crashsim.workloads.git_steps import SEQUENCES
from crashsim.workloads.marks import END, FAILED, START, promises, step_name
from crashsim.workloads.protocol import CommandNotStarted, Workload, WorkloadFailed
from crashsim.workloads.record import record

pytestmark = pytest.mark.vm

EXAMPLE = Path(__file__).parents[2] / "examples" / "config-writer"


@pytest.fixture(scope="module")
def machine() -> QemuMachine:
    return QemuMachine()


def promise_digest(step: str, tree: Tree) -> str:
    """A promise that any recovery can be compared with: the hash of the whole tree."""
    return json.dumps({"step": step, "tree": f"{tree.identity:032x}"})


def make_recording(
    machine: Machine,
    workload: Workload,
    directory: Path,
    *,
    fs: str = "ext4",
    disturbances: Sequence[Disturbance] = (),
) -> Recording:
    return record(
        machine,
        workload,
        parse_filesystem(fs),
        directory,
        disturbances=disturbances,
        promise=promise_digest if workload.name == "git" else None,
    )


def count(recording: Recording) -> Figures:
    with recording.log() as log:
        return figures(log)


def last_tree(machine: QemuMachine, recording: Recording, workload: Workload) -> Tree:
    """What a guest finds that mounts the disk as it was when the recording ended."""
    manifest = recording.manifest
    with recording.log() as log, machine.start() as guest:
        disk = CrashStateDisk(ImageIndex(log))
        disk.show(CrashState(log.event_count))
        guest.attach(0, disk)
        recovery = guest.recover(
            Mount(0, manifest.filesystem, manifest.mount_options),
            exclude=EXCLUDE,
            collect=workload.collect,
        )
        assert recovery.mount_error == ""
        assert recovery.tree is not None
        if workload.name == "git":
            fsck = guest.run(
                ["git", "-C", "/mnt/0/repo", "fsck", "--strict", "--no-dangling"],
                env={
                    "GIT_CONFIG_COUNT": "1",
                    "GIT_CONFIG_KEY_0": "safe.directory",
                    "GIT_CONFIG_VALUE_0": "*",
                },
            )
            assert (fsck.returncode, fsck.stdout + fsck.stderr) == (0, b"")
        return recovery.tree


@pytest.mark.parametrize("fs", FILESYSTEMS)
def test_a_disturbed_recording_replays_to_what_was_promised_last(
    fs: str, machine: QemuMachine, tmp_path: Path
) -> None:
    workload = git_workload("commit", options=GitOptions(fsync="none"))
    recording = make_recording(
        machine, workload, tmp_path / "r", fs=fs, disturbances=make(DEFAULT, 1)
    )

    with recording.log() as log:
        marks = [mark.text for mark in log.marks]
    assert (marks[0], marks[-1]) == (START, END)
    assert [name for mark in marks if (name := step_name(mark))] == [
        step.name for step in workload.steps
    ]
    made = [json.loads(text) for text in promises(marks)]
    assert [each["step"] for each in made] == ["prepare", *(step.name for step in workload.steps)]
    assert len({each["tree"] for each in made}) == len(made)
    tree = last_tree(machine, recording, workload)
    assert f"{tree.identity:032x}" == made[-1]["tree"]


@pytest.mark.parametrize("fs", ["ext4", "xfs", "btrfs"])
def test_disturbances_write_early_what_a_quiet_disk_would_not_see(
    fs: str, machine: QemuMachine, tmp_path: Path
) -> None:
    workload = git_workload("commit", options=GitOptions(fsync="none"))
    quiet = count(make_recording(machine, workload, tmp_path / "quiet", fs=fs))
    disturbed = count(
        make_recording(machine, workload, tmp_path / "d", fs=fs, disturbances=make(DEFAULT, 1))
    )

    assert quiet.flushes <= 4
    assert disturbed.flushes > 10 * max(quiet.flushes, 1)
    assert disturbed.writes > 10 * max(quiet.writes, 1)
    assert disturbed.bytes < 64 << 20


def test_gits_own_flushes_are_counted_on_a_quiet_disk(machine: QemuMachine, tmp_path: Path) -> None:
    flushes = {
        (fsync, method): count(
            make_recording(
                machine,
                git_workload("commit", options=GitOptions(fsync=fsync, method=method)),
                tmp_path / f"{fsync}-{method}",
            )
        ).flushes
        for fsync, method in (("none", "fsync"), ("all", "fsync"), ("all", "batch"))
    }

    assert flushes["none", "fsync"] < flushes["all", "batch"] < flushes["all", "fsync"]


@pytest.mark.slow
@pytest.mark.parametrize("sequence", SEQUENCES)
@pytest.mark.parametrize(
    "options", [GitOptions(), GitOptions(ref_format="reftable", object_format="sha256")]
)
def test_every_sequence_runs_and_leaves_a_sound_repository(
    sequence: str, options: GitOptions, machine: QemuMachine, tmp_path: Path
) -> None:
    workload = git_workload(sequence, options=options, files=4)
    recording = make_recording(machine, workload, tmp_path / "r")

    last_tree(machine, recording, workload)


def test_a_slowed_workload_ends_as_any_other(machine: QemuMachine, tmp_path: Path) -> None:
    workload = git_workload("commit", options=GitOptions(fsync="all"), files=2)
    recording = make_recording(machine, workload, tmp_path / "r", disturbances=make([Kind.SLOW], 1))

    last_tree(machine, recording, workload)


def test_a_commands_promises_are_in_the_log_in_their_order(
    machine: QemuMachine, tmp_path: Path
) -> None:
    workload = command_workload(["config-write", "3"], setup="echo old >config", payload=EXAMPLE)
    recording = make_recording(with_payload(machine, EXAMPLE), workload, tmp_path / "r")

    with recording.log() as log:
        assert promises(mark.text for mark in log.marks) == ("saved 1", "saved 2", "saved 3")
    tree = last_tree(machine, recording, workload)
    assert {"config", "config.json"} <= tree.nodes.keys()


def test_a_failing_command_is_told_and_its_log_stays_readable(
    machine: QemuMachine, tmp_path: Path
) -> None:
    workload = command_workload("crashsim-mark one; echo reason >&2; exit 7")
    with pytest.raises(WorkloadFailed, match=r"(?s)exited with 7.*reason"):
        make_recording(machine, workload, tmp_path / "r")

    with Log.open(tmp_path / "r") as log:
        assert [mark.text for mark in log.marks if step_name(mark.text) is None] == [
            START,
            "one",
            FAILED,
        ]


def test_a_command_that_is_not_in_the_guest_is_told(machine: QemuMachine, tmp_path: Path) -> None:
    with pytest.raises(CommandNotStarted, match="no-such-program"):
        make_recording(machine, command_workload(["no-such-program"]), tmp_path / "r")

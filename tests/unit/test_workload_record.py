from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from crashsim.disk.latency import Latency
from crashsim.disk.log import Log
from crashsim.disk.log_writer import RecordingDiskFull, RecordingExists
from crashsim.disk.recording import Recording
from crashsim.faults.disturbances import Disturbance, Kind, make
from crashsim.machines.failures import AgentError, MountFailed
from crashsim.machines.filesystems import FILESYSTEMS, BadMountOption, parse_filesystem
from crashsim.machines.protocol import CommandResult, Guest, Mark, Mount
from crashsim.machines.tree import Tree
from crashsim.workloads.guest_scripts import GuestCommandFailed
from crashsim.workloads.marks import END, FAILED, START, BadPromise, step_mark
from crashsim.workloads.protocol import CommandNotStarted, Step, WorkloadFailed
from crashsim.workloads.record import record
from crashsim.workloads.session import Clock, Promise
from tests.support.scripted_guest import ScriptedGuest, ScriptedMachine, result


@dataclass
class TwoSteps:
    name: str = "two-steps"
    steps: Sequence[Step] = (Step("first", ("write", "a")), Step("second", ("write", "b"), "sub"))
    environment: Mapping[str, str] = ()  # type: ignore[assignment]
    collect: Sequence[str] = ("sub",)

    def __post_init__(self) -> None:
        self.environment = {"KEY": "value"}

    def prepare(self, guest: Guest, root: str) -> None:
        guest.run(["prepare"], cwd=root)

    def describe(self) -> Mapping[str, object]:
        return {"steps": len(self.steps)}


def make_recording(
    guest: ScriptedGuest,
    directory: Path,
    *,
    disturbances: Sequence[Disturbance] = (),
    promise: Promise | None = None,
) -> list[float]:
    slept: list[float] = []
    record(
        ScriptedMachine(guest),
        TwoSteps(),
        FILESYSTEMS["ext4"],
        directory,
        disturbances=disturbances,
        promise=promise,
        clock=Clock(monotonic=lambda: sum(slept), sleep=slept.append),
    )
    return slept


def marks(directory: Path) -> list[str]:
    with Log.open(directory) as log:
        return [mark.text for mark in log.marks]


def write_then_mark(guest: ScriptedGuest, argv: Sequence[str], on_mark: Mark | None) -> None:
    if argv[0] == "write":
        guest.write(4096, argv[1].encode() * 4096)
        assert on_mark is not None
        on_mark(f"saved {argv[1]}")


def test_marks_surround_the_steps_and_promises_follow_them(tmp_path: Path) -> None:
    guest = ScriptedGuest()
    seen: list[str] = []

    def promise(name: str, tree: Tree) -> str:
        seen.append(name)
        return f"{name} holds"

    make_recording(guest, tmp_path / "r", promise=promise)

    assert seen == ["prepare", "first", "second"]
    trees = [call for name, call in guest.calls if name == "tree"]
    assert trees == [("/mnt/0", (".crashsim-disturb",), ("sub",))] * 3
    assert marks(tmp_path / "r") == [
        START,
        "prepare holds",
        step_mark("first"),
        "first holds",
        step_mark("second"),
        "second holds",
        END,
    ]


def test_a_programs_own_promise_comes_after_what_it_wrote_before(tmp_path: Path) -> None:
    make_recording(ScriptedGuest(write_then_mark), tmp_path / "r")

    with Log.open(tmp_path / "r") as log:
        position = {mark.text: mark.position for mark in log.marks}
        completed = log.requests.completed_at
        assert log.marks[0].position > completed[0]  # mkfs is before START
        assert position[step_mark("first")] < completed[1] < position["saved a"]
        assert position["saved a"] < completed[2] < position["saved b"] < position[END]


def test_steps_run_in_their_directory_with_the_workloads_environment(tmp_path: Path) -> None:
    guest = ScriptedGuest()
    make_recording(guest, tmp_path / "r")

    runs = [call for name, call in guest.calls if name == "run"]
    assert (("write", "a"), "/mnt/0", {"KEY": "value"}) in runs
    assert (("write", "b"), "/mnt/0/sub", {"KEY": "value"}) in runs


def test_the_set_up_is_synced_before_start_and_everything_after_end(tmp_path: Path) -> None:
    def sync_writes(guest: ScriptedGuest, argv: Sequence[str], on_mark: Mark | None) -> None:
        if "sync" in " ".join(argv):
            guest.flush()

    make_recording(ScriptedGuest(sync_writes), tmp_path / "r")

    with Log.open(tmp_path / "r") as log:
        start, end = (
            next(mark.position for mark in log.marks if mark.text == text) for text in (START, END)
        )
        flushes = log.requests.completed_at[log.requests.operation == 4]
        assert [position for position in flushes if position < start]
        assert [position for position in flushes if position > end]
        assert not [position for position in flushes if start < position < end]


def test_disturbances_begin_after_the_set_up_and_end_before_the_epilogue(tmp_path: Path) -> None:
    guest = ScriptedGuest()
    slept = make_recording(guest, tmp_path / "r", disturbances=make(Kind, 11))

    names = guest.names()
    runs = [index for index, (name, _) in enumerate(guest.calls) if name == "run"]
    first, last = names.index("disturb"), names.index("calm")
    assert [call for name, call in guest.calls if name == "disturb"] == [
        "fsync",
        "writer",
        "writeback",
    ]
    steps = [index for index in runs if first < index < last]
    assert len(steps) == 2
    assert all(guest.calls[index][1][0][0] == "strace" for index in steps)
    assert any(index > last for index in runs)
    mount = next(call for name, call in guest.calls if name == "mount")
    assert "commit=1" in mount.options
    assert slept


def test_without_disturbances_nothing_is_hurried_or_slowed(tmp_path: Path) -> None:
    guest = ScriptedGuest()
    make_recording(guest, tmp_path / "r")

    assert "disturb" not in guest.names()
    mount = next(call for name, call in guest.calls if name == "mount")
    assert mount.options == "noatime"
    assert not [call for name, call in guest.calls if name == "run" and call[0][0] == "strace"]


@pytest.mark.parametrize(
    ("outcome", "told"),
    [
        (result(128, b"fatal: no such thing\n"), "exited with 128.*fatal: no such thing"),
        (result(-9), "killed by signal 9"),
        (result(0, timed_out=True), "still running"),
    ],
)
def test_a_failing_command_is_told_and_the_log_stays_readable(
    outcome: CommandResult, told: str, tmp_path: Path
) -> None:
    def fail(guest: ScriptedGuest, argv: Sequence[str], on_mark: Mark | None) -> CommandResult:
        guest.write(8192, b"x" * 512)
        return outcome if argv[-1] == "b" else result()

    guest = ScriptedGuest(fail)
    with pytest.raises(WorkloadFailed, match=f"(?s)two-steps: second.*{told}"):
        make_recording(guest, tmp_path / "r")

    assert marks(tmp_path / "r") == [START, step_mark("first"), step_mark("second"), FAILED]
    assert not guest.alive


def test_a_command_that_is_not_there_is_the_callers_fault(tmp_path: Path) -> None:
    def miss(guest: ScriptedGuest, argv: Sequence[str], on_mark: Mark | None) -> None:
        if argv[0] == "write":
            raise AgentError("no such file", "ENOENT")

    with pytest.raises(CommandNotStarted, match=r"first: cannot start 'write'.*ENOENT") as failure:
        make_recording(ScriptedGuest(miss), tmp_path / "r")
    assert failure.value.exit_code == 2


def test_an_agent_that_fails_is_the_infrastructures_fault(tmp_path: Path) -> None:
    def refuse(guest: ScriptedGuest, argv: Sequence[str], on_mark: Mark | None) -> None:
        if argv[0] == "write":
            raise AgentError("a command is running")

    with pytest.raises(AgentError) as failure:
        make_recording(ScriptedGuest(refuse), tmp_path / "r")
    assert failure.value.exit_code == 3


@pytest.mark.parametrize(
    ("text", "expected"), [("ext4:data=wr", BadMountOption), ("ext4", MountFailed)]
)
def test_a_failed_mount_is_the_fault_of_options_if_there_are_any(
    text: str, expected: type[Exception], tmp_path: Path
) -> None:
    class Unmountable(ScriptedGuest):
        def mount(self, mount: Mount) -> None:
            raise MountFailed("no", "EINVAL")

    with pytest.raises(expected, match="EINVAL" if expected is BadMountOption else "no"):
        record(ScriptedMachine(Unmountable()), TwoSteps(), parse_filesystem(text), tmp_path / "r")


def test_the_disk_takes_as_long_as_it_is_told_to(tmp_path: Path) -> None:
    guest, latency = ScriptedGuest(), Latency(0.001, 0.002)
    record(ScriptedMachine(guest), TwoSteps(), FILESYSTEMS["ext4"], tmp_path, latency=latency)
    assert guest.latency is latency


def test_the_manifest_tells_how_it_was_made(tmp_path: Path) -> None:
    make_recording(ScriptedGuest(), tmp_path / "r", disturbances=make([Kind.COMMIT], 1))

    manifest = Recording.open(tmp_path / "r").manifest
    assert (manifest.filesystem, manifest.mount_options) == ("ext4", "noatime")
    assert manifest.target == "two-steps"
    assert [step["name"] for step in manifest.steps] == ["first", "second"]
    assert [each["kind"] for each in manifest.disturbances] == ["commit"]
    assert manifest.machine["kernel"] == "6.12.0-test"
    assert manifest.details["complete"] is True


def test_a_recording_cut_short_says_so_and_is_not_overwritten(tmp_path: Path) -> None:
    def fail(guest: ScriptedGuest, argv: Sequence[str], on_mark: Mark | None) -> CommandResult:
        return result(1)

    with pytest.raises(GuestCommandFailed):
        make_recording(ScriptedGuest(fail), tmp_path / "r")
    assert Recording.open(tmp_path / "r").manifest.details["complete"] is False
    with pytest.raises(RecordingExists):
        make_recording(ScriptedGuest(), tmp_path / "r")


def test_a_promise_that_cannot_be_one_ends_the_recording(tmp_path: Path) -> None:
    def forge(guest: ScriptedGuest, argv: Sequence[str], on_mark: Mark | None) -> None:
        if on_mark is not None:
            on_mark(END)

    with pytest.raises(BadPromise):
        make_recording(ScriptedGuest(forge), tmp_path / "r")
    assert END not in marks(tmp_path / "r")


def test_a_full_host_disk_is_the_cause_that_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guest sees I/O errors then, and its commands fail; that must not be blamed on them."""
    import os as real_os

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    def fail(guest: ScriptedGuest, argv: Sequence[str], on_mark: Mark | None) -> CommandResult:
        if argv[0] != "write":
            return result()
        monkeypatch.setattr(real_os, "write", full)
        with pytest.raises(RecordingDiskFull):
            guest.write(0, b"y" * 512)
        return result(1, b"Input/output error")

    with pytest.raises(RecordingDiskFull):
        make_recording(ScriptedGuest(fail), tmp_path / "r")
    monkeypatch.undo()
    assert marks(tmp_path / "r") == [START, step_mark("first")]

"""Recordings on a disk that fails: what each step said is noted, and only success is promised."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console

from crashsim.campaigns.failed_syncs import FailedSyncProbe, FailedSyncResult
from crashsim.campaigns.failing_operations import FailingCallsResult, OperationErrors
from crashsim.campaigns.results import FaultResult, MachineResult, StepOutcomeResult
from crashsim.disk.log import Log
from crashsim.disk.profile import DEFAULT_PROFILE
from crashsim.disk.recording import Recording
from crashsim.explore.timeline import Timeline
from crashsim.machines.failures import AgentError, Cause, GuestDied
from crashsim.machines.filesystems import FILESYSTEMS
from crashsim.machines.protocol import CommandResult, Guest, Mark
from crashsim.report.failed_syncs import render_failed_syncs
from crashsim.report.failing_calls import render_failing_calls
from crashsim.report.faults import render_fault
from crashsim.workloads.marks import AFTERMATH, END, START, step_mark
from crashsim.workloads.protocol import Step
from crashsim.workloads.record import record
from crashsim.workloads.session import Clock
from crashsim.workloads.trouble import Trouble, parse_fault
from tests.support.scripted_guest import ScriptedGuest, ScriptedMachine, result


@dataclass
class ThreeWrites:
    name: str = "three-writes"
    steps: Sequence[Step] = tuple(Step(letter, ("write", letter)) for letter in "abc")
    environment: Mapping[str, str] = field(default_factory=dict)
    collect: Sequence[str] = ()

    def prepare(self, guest: Guest, root: str) -> None:
        guest.run(["write", "p"], cwd=root)

    def describe(self) -> Mapping[str, object]:
        return {}


def _behave(guest: ScriptedGuest, argv: Sequence[str], _: Mark | None) -> CommandResult | None:
    if argv[0] == "write":
        try:
            guest.write(4096, argv[1].encode() * 4096)
        except OSError:
            return result(5, b"trying\nfatal: the disk says no\ngood bye\n")
    return None


def _record(guest: ScriptedGuest, directory: Path, fault: str) -> Recording:
    slept: list[float] = []
    return record(
        ScriptedMachine(guest),
        ThreeWrites(),
        FILESYSTEMS["ext4"],
        directory,
        promise=lambda name, _tree: f"{name} holds",
        fault=parse_fault(fault),
        clock=Clock(monotonic=lambda: sum(slept), sleep=slept.append),
    )


def test_the_first_step_that_fails_is_the_last_and_is_not_promised(tmp_path: Path) -> None:
    recording = _record(ScriptedGuest(_behave), tmp_path / "r", "write:2")

    trouble = recording.manifest.details["trouble"]
    assert [(each["step"], each["code"]) for each in trouble["outcomes"]] == [("a", 0), ("b", 5)]
    assert trouble["outcomes"][1]["said"] == "fatal: the disk says no"
    assert [each["operation"] for each in trouble["failed"]] == ["WRITE"]
    with Log.open(tmp_path / "r") as log:
        assert [mark.text for mark in log.marks] == [
            START,
            "prepare holds",
            step_mark("a"),
            "a holds",
            step_mark("b"),
            END,
            AFTERMATH,
            "after the failure holds",
        ]
        timeline = Timeline.of(log, DEFAULT_PROFILE)
        assert timeline.promise_count(timeline.end) == 2, "what was only seen is not promised"


def test_a_filesystem_that_cannot_be_read_or_synced_ends_no_recording(tmp_path: Path) -> None:
    def behave(
        guest: ScriptedGuest, argv: Sequence[str], mark: Mark | None
    ) -> CommandResult | None:
        if guest.disk is not None and "b" in str(guest.calls) and argv[0] == "sh":
            raise AgentError("cannot sync", "EIO")
        return _behave(guest, argv, mark)

    recording = _record(ScriptedGuest(behave), tmp_path / "r", "write:2:lasting")

    assert recording.manifest.details["trouble"]["aftermath"] == ["syncing it: cannot sync"]


def test_a_guest_that_dies_is_no_trouble_of_the_disk() -> None:
    def die() -> None:
        raise GuestDied(Cause.PANIC, "it is gone")

    with pytest.raises(GuestDied):
        Trouble().tolerate("reading it", die)


def _text(renderable: object) -> str:
    console = Console(width=200)
    with console.capture() as captured:
        console.print(renderable)
    return captured.get()


def test_what_a_terminal_shows_of_a_fault() -> None:
    outcomes = [StepOutcomeResult("a", 0, "", 0), StepOutcomeResult("b", 5, "fatal: no\x1b", 1)]
    lost = _text(render_fault(FaultResult("write:2", [], outcomes, [], ["durable: gone"])))
    held = _text(render_fault(FaultResult("write:2", [], outcomes, ["syncing it: EIO"], [])))

    assert "acknowledged" in lost
    assert "fatal: no" in lost
    assert "\x1b" not in lost
    assert "after a reboot: durable: gone" in lost
    assert "afterwards: syncing it: EIO" in held
    assert "everything holds that was acknowledged" in held


def test_what_a_terminal_shows_of_failing_calls() -> None:
    tried = [OperationErrors("add", 93, 877)]
    good = FailingCallsResult("fsync", tried, [], 1.0)
    bad = FailingCallsResult("fsync", tried, ["add: lost"] * 25, 1.0)

    assert "nothing was lost" in _text(render_failing_calls(good))
    assert "nothing was lost" not in _text(render_failing_calls(bad))
    assert "and 5 more" in _text(render_failing_calls(bad))


def test_what_a_terminal_shows_of_failed_syncs() -> None:
    told = dict.fromkeys(("write", "fsync again", "reopened fsync", "rewrite"), "0")
    told |= {"fsync": "EIO", "read": "new", "read without cache": "old"}
    probes = [
        FailedSyncProbe("ext4", "overwrite", "data", told, "old", "more"),
        FailedSyncProbe("xfs", "overwrite", "data", told, "new", "more"),
    ]

    silent, kept = probes
    assert silent.is_silent
    assert not kept.is_silent
    text = _text(render_failed_syncs(FailedSyncResult(MachineResult("qemu", "tcg", "6"), probes)))
    assert text.count("lost") == 1

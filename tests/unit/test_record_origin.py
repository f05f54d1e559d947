"""A recording that goes on with the disk that another one left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from crashsim.disk.log import Log
from crashsim.disk.log_writer import LogWriter
from crashsim.disk.recording import BASE_NAME
from crashsim.disk.request import Operation, Request
from crashsim.errors import InfrastructureError
from crashsim.machines.filesystems import FILESYSTEMS
from crashsim.machines.protocol import Guest, Mount, Recovery
from crashsim.machines.tree import Tree
from crashsim.workloads.marks import END, FAILED, START, step_mark
from crashsim.workloads.origin import Enough, Origin
from crashsim.workloads.protocol import Step
from crashsim.workloads.record import record
from crashsim.workloads.session import RECOVERY, Clock
from tests.support.scripted_guest import ScriptedGuest, ScriptedMachine

BASE = b"base" * 1024


@dataclass
class Steps:
    steps: Sequence[Step]
    name: str = "steps"
    environment: Mapping[str, str] = field(default_factory=dict)
    collect: Sequence[str] = ("sub",)

    def prepare(self, guest: Guest, root: str) -> None:
        raise AssertionError("what is there already must not be prepared")

    def describe(self) -> Mapping[str, object]:
        return {}


class RecoveringGuest(ScriptedGuest):
    """Mounting it writes, as a journal's replay does."""

    def recover(
        self, mount: Mount, *, exclude: Sequence[str] = (), collect: Sequence[str] = ("",)
    ) -> Recovery:
        self.calls.append(("recover", (mount, tuple(exclude), tuple(collect))))
        assert self.disk is not None
        assert self.disk.perform(Request(Operation.READ, 4096, 4096)) == BASE
        self.write(0, b"\1" * 512)
        return Recovery(Tree({}))


def make_recording(
    guest: ScriptedGuest,
    directory: Path,
    origin: Origin,
    steps: Sequence[Step] = (),
    enough: Enough = lambda _name, _log: False,
) -> list[str]:
    directory.mkdir()
    (directory / BASE_NAME).write_bytes(bytes(4096) + BASE)
    slept: list[float] = []
    try:
        record(
            ScriptedMachine(guest),
            Steps(steps),
            FILESYSTEMS["ext4"],
            directory,
            promise=lambda name, _tree: f"{name} holds",
            origin=origin,
            enough=enough,
            clock=Clock(monotonic=lambda: sum(slept), sleep=slept.append),
        )
    finally:
        with Log.open(directory) as log:
            marks = [mark.text for mark in log.marks]
    return marks


def test_promises_in_force_come_before_the_recovery(tmp_path: Path) -> None:
    guest = RecoveringGuest()
    marks = make_recording(
        guest, tmp_path / "r", Origin(["old"], lambda *_: None), [Step("one", ("true",))]
    )

    assert marks == ["old", START, "prepare holds", step_mark("one"), "one holds", END]
    assert "format" not in guest.names()
    assert guest.names().index("recover") < guest.names().index("run")
    with Log.open(tmp_path / "r") as log:
        assert log.marks[0].position < log.requests.submitted_at[0] < log.marks[1].position


def test_a_life_without_steps_is_a_recovery_that_can_be_cut_anywhere(tmp_path: Path) -> None:
    marks = make_recording(RecoveringGuest(), tmp_path / "r", Origin(["old"], lambda *_: None))

    assert marks == ["old", "prepare holds", END]


def test_what_was_recovered_is_looked_at_before_anything_else_runs(tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def recovered(guest: Guest, recovery: Recovery) -> None:
        assert isinstance(guest, RecoveringGuest)
        assert recovery.tree is not None
        seen.append(guest.names())

    make_recording(RecoveringGuest(), tmp_path / "r", Origin([], recovered))

    assert seen == [["attach", "recover"]]


def test_giving_up_after_the_recovery_ends_the_recording(tmp_path: Path) -> None:
    class GivenUp(InfrastructureError):
        """For this test."""

    def recovered(_guest: Guest, _recovery: Recovery) -> None:
        raise GivenUp("it is damaged")

    guest = RecoveringGuest()
    with pytest.raises(GivenUp):
        make_recording(guest, tmp_path / "r", Origin(["old"], recovered), [Step("one", ("true",))])

    assert not guest.alive
    assert "run" not in guest.names()
    with Log.open(tmp_path / "r") as log:
        assert [mark.text for mark in log.marks] == ["old", FAILED]


def test_no_step_is_taken_after_enough(tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []

    def enough(name: str, log: LogWriter) -> bool:
        asked.append((name, log.request_count))
        return name == "two"

    steps = [Step(name, ("true",)) for name in ("one", "two", "three")]
    marks = make_recording(
        RecoveringGuest(), tmp_path / "r", Origin([], lambda *_: None), steps, enough
    )

    assert [name for name, _ in asked] == ["one", "two"]
    assert marks[-3:] == [step_mark("two"), "two holds", END]


def test_an_explored_recovery_is_part_of_what_is_explored(tmp_path: Path) -> None:
    guest = RecoveringGuest()
    marks = make_recording(
        guest,
        tmp_path / "r",
        Origin(["old", "older"], lambda *_: None, explored=True),
        [Step("gc", ("true",))],
    )

    expected = ["old", "older", START, step_mark(RECOVERY), step_mark("gc"), "gc holds", END]
    assert marks == expected
    with Log.open(tmp_path / "r") as log:
        assert log.marks[2].position < log.requests.submitted_at[0] < log.marks[4].position
    names = guest.names()
    assert names[names.index("recover") + 1] == "run", "and nothing is synced before gc"
    assert guest.calls[names.index("run")][1][0] == ("true",)


def test_an_explored_recovery_may_be_the_mount_alone(tmp_path: Path) -> None:
    marks = make_recording(
        RecoveringGuest(), tmp_path / "r", Origin(["old"], lambda *_: None, explored=True)
    )

    assert marks == ["old", START, step_mark(RECOVERY), END]

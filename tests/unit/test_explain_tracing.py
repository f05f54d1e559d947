"""Tracing a workload: what is run in the guest, and what comes back is not trusted."""

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pytest

from crashsim.explain import tracing
from crashsim.explain.missing import MissingKind, what_was_missing
from crashsim.explain.tracing import TraceUnreadable, trace_workload
from crashsim.machines.filesystems import FILESYSTEMS
from crashsim.machines.protocol import CommandResult, Guest, Mark
from crashsim.workloads.protocol import Step, WorkloadFailed
from tests.support.scripted_guest import ScriptedGuest, ScriptedMachine, result

OUTPUT = b"""\
7 1700000000.000001 execve("/bin/save", ["save", "x"], 0x1 /* 1 var */) = 0
7 1700000000.000002 open("new", O_WRONLY|O_CREAT, 0666) = 3</mnt/0/sub/new>
7 1700000000.000003 write(3</mnt/0/sub/new>, "x", 1) = 1
7 1700000000.000004 rename("new", "kept") = 0
"""


@dataclass
class OneStep:
    name: str = "one-step"
    steps: Sequence[Step] = (Step("save", ("save", "x"), "sub"),)
    environment: Mapping[str, str] = field(default_factory=lambda: {"KEY": "value"})
    collect: Sequence[str] = ()

    def prepare(self, guest: Guest, root: str) -> None:
        guest.run(["prepare"], cwd=root)

    def describe(self) -> Mapping[str, object]:
        return {}


def guest_with(output: bytes, status: int = 0, returncode: int = 0) -> ScriptedGuest:
    """A guest in which strace ends with `status`, and gzip with `returncode` gives `output`."""

    def behave(
        guest: ScriptedGuest, argv: Sequence[str], on_mark: Mark | None
    ) -> CommandResult | None:
        if argv[0] == "strace":
            return result(status, b"it failed")
        if argv[0] == "gzip":
            return CommandResult(returncode, output, b"no such file", 0.1)
        return None

    return ScriptedGuest(behave)


def test_the_steps_run_under_strace_where_and_as_they_were_recorded() -> None:
    guest = guest_with(gzip.compress(OUTPUT))

    trace = trace_workload(ScriptedMachine(guest), OneStep(), FILESYSTEMS["ext4"])

    runs = [details for name, details in guest.calls if name == "run"]
    argv, directory, environment = runs[1]
    assert runs[0][0] == ("prepare",)
    assert argv[:3] == ("strace", "-f", "-y")
    assert argv[-3:] == ("--", "save", "x")
    assert (directory, environment) == ("/mnt/0/sub", {"KEY": "value"})
    assert not guest.alive
    missing = what_was_missing(trace, "sub/kept", "save")
    assert (missing.kind, missing.written_as) == (MissingKind.NEVER_SYNCED, "sub/new")


def test_a_step_that_fails_under_strace_is_told() -> None:
    machine = ScriptedMachine(guest_with(b"", status=1))

    with pytest.raises(WorkloadFailed, match="save, under strace, exited with 1"):
        trace_workload(machine, OneStep(), FILESYSTEMS["ext4"])


@pytest.mark.parametrize(
    ("output", "returncode", "words"),
    [
        (b"", 1, "no such file"),
        (b"not gzip at all", 0, "does not unpack"),
        (gzip.compress(OUTPUT)[:-12], 0, "longer than"),
    ],
)
def test_a_trace_that_cannot_be_read_is_no_trace(
    output: bytes, returncode: int, words: str
) -> None:
    machine = ScriptedMachine(guest_with(output, returncode=returncode))

    with pytest.raises(TraceUnreadable, match=words):
        trace_workload(machine, OneStep(), FILESYSTEMS["ext4"])


def test_a_trace_that_unpacks_to_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "TRACE_BYTES_MAX", 1 << 20)
    machine = ScriptedMachine(guest_with(gzip.compress(b"x" * (2 << 20))))

    with pytest.raises(TraceUnreadable, match="longer than 1 MiB"):
        trace_workload(machine, OneStep(), FILESYSTEMS["ext4"])

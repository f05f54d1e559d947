"""A guest without a machine: commands are Python functions, the crash disk is real.

For tests of what drives a guest. What a real guest does is tested in tests/vm.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from crashsim.disk.latency import NO_LATENCY, Latency
from crashsim.disk.request import Operation, Request
from crashsim.disk.server import Disk
from crashsim.machines.protocol import CommandResult, MachineInfo, Mark, Mount, Recovery
from crashsim.machines.tree import Tree

INFO = MachineInfo("scripted", "none", "6.12.0-test")

Behaviour = Callable[["ScriptedGuest", Sequence[str], Mark | None], CommandResult | None]
"""What a command does; None stands for success without output."""


def result(returncode: int = 0, stderr: bytes = b"", timed_out: bool = False) -> CommandResult:
    return CommandResult(returncode, b"", stderr, 0.1, timed_out)


@dataclass
class ScriptedGuest:
    """Notes every call in `calls`; `behave` decides what commands do."""

    behave: Behaviour = lambda guest, argv, on_mark: None
    calls: list[tuple[str, Any]] = field(default_factory=list)
    disk: Disk | None = None
    latency: Latency = NO_LATENCY
    alive: bool = True
    info: MachineInfo = INFO

    def send(self, request: Request) -> None:
        """Have the disk carry out one request, as the NBD server would."""
        assert self.disk is not None
        assert self.alive
        ticket = self.disk.arrived(request)
        self.disk.perform(request)
        self.disk.replied(ticket, 0)

    def write(self, offset_bytes: int, data: bytes) -> None:
        self.send(Request(Operation.WRITE, offset_bytes, len(data), data=data))

    def flush(self) -> None:
        self.send(Request(Operation.FLUSH))

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def attach(self, slot: int, disk: Disk, latency: Latency = NO_LATENCY) -> None:
        self.calls.append(("attach", slot))
        self.disk = disk
        self.latency = latency

    def run(
        self,
        argv: Sequence[str],
        *,
        cwd: str = "/",
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_seconds: float = 60.0,
        output_limit_bytes: int = 1 << 20,
        on_mark: Mark | None = None,
    ) -> CommandResult:
        self.calls.append(("run", (tuple(argv), cwd, dict(env or {}))))
        return self.behave(self, argv, on_mark) or result()

    def write_file(self, path: str, content: bytes, mode: int = 0o644) -> None:
        self.calls.append(("write_file", (path, content)))

    def format(self, slot: int, fstype: str, argv: Sequence[str]) -> None:
        self.calls.append(("format", fstype))
        self.write(0, b"\1" * 4096)

    def mount(self, mount: Mount) -> None:
        self.calls.append(("mount", mount))

    def unmount(self, slot: int) -> None:
        self.calls.append(("unmount", slot))

    def tree(
        self, root: str, *, exclude: Sequence[str] = (), collect: Sequence[str] = ("",)
    ) -> Tree:
        self.calls.append(("tree", (root, tuple(exclude), tuple(collect))))
        return Tree({})

    def recover(
        self, mount: Mount, *, exclude: Sequence[str] = (), collect: Sequence[str] = ("",)
    ) -> Recovery:
        raise NotImplementedError("no recording recovers anything")

    def disturb(self, specification: Mapping[str, Any]) -> int:
        self.calls.append(("disturb", specification["kind"]))
        return 1

    def calm(self) -> None:
        self.calls.append(("calm", None))

    def kill(self) -> None:
        self.alive = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()


@dataclass
class ScriptedMachine:
    """Starts one scripted guest."""

    guest: ScriptedGuest
    info: MachineInfo = INFO

    def start(self) -> ScriptedGuest:
        return self.guest

"""What every kind of machine offers: the contract that the conformance suite holds it to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self, runtime_checkable

from crashsim.disk.latency import NO_LATENCY, Latency
from crashsim.disk.server import Disk
from crashsim.machines.tree import Tree

Mark = Callable[[str], None]
"""Called with a mark's text when a program in the guest makes a promise; returns once it is in
the log, after which the guest is let go on."""


@dataclass(frozen=True, slots=True)
class MachineInfo:
    """Which machine was chosen and why.

    :ivar kind: `qemu`, `docker`, `vagrant` or `model`.
    :ivar accel: `kvm`, `tcg`, or `vagrant` where that is the provider's business.
    :ivar kernel: the guest kernel's release, as `uname -r` prints it.
    :ivar reason: why this accelerator: for `crashsim doctor`.
    :ivar records: its guests record crash disks with their own kernel (`KernelRecordingGuest`).
    """

    kind: str
    accel: str
    kernel: str
    reason: str = ""
    records: bool = False


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command in the guest ended.

    :ivar returncode: exit status, or minus the signal number.
    :ivar stdout: what it printed, cut at the limit that the call gave.
    :ivar timed_out: it was killed, with everything it had started, since its time was over.
    """

    returncode: int
    stdout: bytes
    stderr: bytes
    seconds: float
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class Mount:
    """A filesystem to mount in the guest.

    :ivar slot: which disk, 0 for the first crash disk.
    :ivar fstype: as mount(2) takes it.
    :ivar options: mount options joined by commas, as mount(8) takes them; may be empty.
    :ivar at: an absolute path, of a directory that is there; empty: /mnt/<slot>, made if need be.
    :ivar then: what is mounted inside of it afterwards, from other disks.
    """

    slot: int
    fstype: str
    options: str = ""
    at: str = ""
    then: tuple["Mount", ...] = ()


@dataclass(frozen=True, slots=True)
class Recovery:
    """What happened when a guest mounted a crash state.

    :ivar tree: the recovered tree; None where the filesystem did not mount.
    :ivar mount_error: the errno's name of a failed mount (`EUCLEAN`), else empty.
    :ivar kernel_log: the kernel's messages since the mount began, for explanations.
    :ivar tainted: the kernel warned, oopsed or was tainted: the guest must be thrown away.
    """

    tree: Tree | None
    mount_error: str = ""
    kernel_log: str = ""
    tainted: bool = False
    seconds: Mapping[str, float] = field(default_factory=dict)


class Guest(Protocol):
    """A running machine. Also a context manager: leaving it ends the machine, always.

    Every method raises `GuestDied` (an InfrastructureError) when the guest has panicked, hung or
    gone, with the last lines of its console, and `AgentError` when the agent refuses a request.
    """

    info: MachineInfo

    def attach(self, slot: int, disk: Disk, latency: Latency = NO_LATENCY) -> None:
        """Back disk `slot` by `disk` from now on. The guest must not have it mounted.

        :param latency: how long the disk lets the guest wait.
        """

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
        """Run a command to its end. Promises that it makes by `crashsim-mark` go to `on_mark`."""

    def write_file(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Create or replace a file in the guest."""

    def format(self, slot: int, fstype: str, argv: Sequence[str]) -> None:
        """Make a filesystem: run `argv + [device]`. Raises AgentError with its output."""

    def mount(self, mount: Mount) -> None:
        """Mount at /mnt/<slot>, without what comes then; raises MountFailed with the errno."""

    def unmount(self, slot: int) -> None:
        """Unmount, what is mounted inside of it before, and make the kernel forget the device."""

    def tree(
        self, root: str, *, exclude: Sequence[str] = (), collect: Sequence[str] = ("",)
    ) -> Tree:
        """Hash everything below `root`; bring back contents below the `collect` prefixes."""

    def recover(
        self, mount: Mount, *, exclude: Sequence[str] = (), collect: Sequence[str] = ("",)
    ) -> Recovery:
        """Mount a crash state, with what comes then, and read its whole tree, in one round trip; it
        stays mounted."""

    def disturb(self, specification: Mapping[str, Any]) -> int:
        """Start a disturbance in the background; its number."""

    def calm(self) -> None:
        """End every disturbance and wait until they are gone."""

    def kill(self) -> None:
        """End the machine at once, as a power cut does. Idempotent."""

    def __enter__(self) -> Self:
        """The guest itself."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End the machine."""


class KernelLog(Protocol):
    """A crash disk that is being recorded by the guest's own kernel."""

    @property
    def event_count(self) -> int:
        """How many entries the log has."""

    def mark(self, text: str) -> None:
        """Put a mark into the log; returns once it is there."""

    def finish(self, directory: Path) -> None:
        """Cut the power, which ends the guest, and make a log of ours in `directory`."""


@runtime_checkable
class KernelRecordingGuest(Guest, Protocol):
    """A guest whose kernel has a recorder of its own: dm-log-writes."""

    def record_disk(self, slot: int) -> KernelLog:
        """Make disk `slot` blank and log what is written to it from now on."""


class Machine(Protocol):
    """A kind of machine, ready to start guests."""

    @property
    def info(self) -> MachineInfo:
        """Which machine this is."""

    def start(self) -> Guest:
        """A fresh guest, booted or restored from the boot snapshot. Raises InfrastructureError."""

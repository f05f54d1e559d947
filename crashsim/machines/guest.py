"""A guest behind an agent's channel: what every kind of virtual machine has in common."""

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar

import msgspec

from crashsim.errors import UsageError
from crashsim.machines.channel import Channel, Content, encode_content, to_wire
from crashsim.machines.contents import (
    ContentCache,
    RecoverAnswer,
    Row,
    TreeAnswer,
    UntrueTree,
    errno_name,
)
from crashsim.machines.failures import AgentError, MountFailed
from crashsim.machines.protocol import CommandResult, Mark, Mount, Recovery
from crashsim.machines.tree import Tree

GRACE_SECONDS = 30.0
"""What a command's answer may take beyond the command's own time: killing, and a busy host."""

ANSWER_SECONDS = 120.0
TREE_SECONDS = 600.0
FORMAT_SECONDS = 300.0
PIECE_BYTES = 4 << 20
STDIN_BYTES_MAX = 8 << 20
NOT_THE_FILESYSTEM = frozenset({"EBUSY", "ENODEV", "ENOMEM", "EPERM"})
"""Ends of mount(2) that say nothing about what is on the disk: it is mounted already, this kernel
has no such filesystem, the guest is out of memory, or it is not allowed."""

T = TypeVar("T")


class HelloAnswer(msgspec.Struct):
    """The agent's answer to `hello`."""

    kernel: str
    tainted: bool


class NumberAnswer(msgspec.Struct):
    """The answer to `disturb`."""

    number: Annotated[int, msgspec.Meta(ge=1)]


class NoAnswer(msgspec.Struct):
    """Nothing but that it is done."""


class RunAnswer(msgspec.Struct):
    """The answer to `run`; outputs in base64."""

    returncode: int
    stdout: Annotated[bytes, msgspec.Meta(max_length=64 << 20)]
    stderr: Annotated[bytes, msgspec.Meta(max_length=64 << 20)]
    seconds: float
    timed_out: bool


class AgentGuest:
    """The part of `protocol.Guest` that goes through the agent."""

    def __init__(self, channel: Channel) -> None:
        """Drive the agent behind `channel`."""
        self._channel = channel
        self._contents = ContentCache()

    def hello(self, timeout_seconds: float = ANSWER_SECONDS) -> HelloAnswer:
        """Wait until the agent answers."""
        return self._call("hello", {}, HelloAnswer, timeout_seconds=timeout_seconds)

    def set_clock(self, seconds: float) -> None:
        """Set the guest's time of day, in seconds since 1970."""
        self._do("clock", {"seconds": seconds})

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
        """Run a command to its end: see `protocol.Guest`.

        Only one command runs at a time; AgentError for a second. Processes that it leaves behind in
        the background go on, unless it timed out. When `on_mark` raises, the command is still
        running: throw the guest away.
        """
        if len(stdin) > STDIN_BYTES_MAX:
            raise UsageError(f"the input of a command has {len(stdin)} bytes; write a file instead")
        arguments = {
            "argv": [to_wire(argument) for argument in argv],
            "cwd": to_wire(cwd),
            "environment": {to_wire(name): to_wire(value) for name, value in (env or {}).items()},
            "stdin": encode_content(stdin),
            "timeout_seconds": timeout_seconds,
            "output_limit_bytes": output_limit_bytes,
            "marks": on_mark is not None,
        }
        answer = self._call(
            "run",
            arguments,
            RunAnswer,
            timeout_seconds=timeout_seconds + GRACE_SECONDS,
            on_mark=on_mark,
        )
        return CommandResult(
            answer.returncode,
            answer.stdout[:output_limit_bytes],
            answer.stderr[:output_limit_bytes],
            answer.seconds,
            answer.timed_out,
        )

    def write_file(self, path: str, content: bytes, mode: int = 0o644) -> None:
        """Create or replace a file in the guest; also one of /proc or /sys."""
        for start in range(0, len(content) or 1, PIECE_BYTES):
            piece = encode_content(content[start : start + PIECE_BYTES])
            self._do(
                "write_file",
                {"path": to_wire(path), "content": piece, "mode": mode, "append": start > 0},
            )

    def format(self, slot: int, fstype: str, argv: Sequence[str]) -> None:
        """Make a filesystem: run `argv + [device]`. Raises AgentError with its output."""
        command = [*argv, f"/dev/vd{chr(ord('b') + slot)}"]
        result = self.run(command, timeout_seconds=FORMAT_SECONDS)
        if result.returncode != 0 or result.timed_out:
            output = (result.stdout + result.stderr).decode("utf-8", "replace").strip()
            raise AgentError(
                f"could not make {fstype} on disk {slot}: {' '.join(command)} ended with "
                f"{result.returncode}: {output}"
            )

    def mount(self, mount: Mount) -> None:
        """Mount at /mnt/<slot>, without what comes then; raises MountFailed with the errno."""
        try:
            self._do("mount", _mount_arguments(mount))
        except AgentError as error:
            if not error.errno_name:
                raise
            raise _mount_failed(mount, error.errno_name) from error

    def unmount(self, slot: int) -> None:
        """Unmount, what is mounted inside of it before, and make the kernel forget the device."""
        self._do("unmount", {"slot": slot})

    def tree(
        self, root: str, *, exclude: Sequence[str] = (), collect: Sequence[str] = ("",)
    ) -> Tree:
        """Hash everything below `root`; bring back contents below the `collect` prefixes."""
        arguments = {"root": to_wire(root), **self._tree_arguments(exclude, collect)}
        answer = self._collect("tree", arguments, TreeAnswer)
        return self._tree(answer.rows, collect)

    def recover(
        self, mount: Mount, *, exclude: Sequence[str] = (), collect: Sequence[str] = ("",)
    ) -> Recovery:
        """Mount a crash state, with what comes then, and read its whole tree, in one round trip; it
        stays mounted.

        Raises MountFailed where the mount failed for another reason than what is on the disk.
        """
        arguments = {
            **_mount_arguments(mount),
            "then": [_mount_arguments(each) for each in mount.then],
            **self._tree_arguments(exclude, collect),
        }
        answer = self._collect("recover", arguments, RecoverAnswer)
        if (answer.rows is None) != bool(answer.errno):
            raise self._channel.broken("a recovery that neither worked nor failed")
        if errno_name(answer.errno) in NOT_THE_FILESYSTEM:
            raise _mount_failed(mount, errno_name(answer.errno))
        return Recovery(
            tree=None if answer.rows is None else self._tree(answer.rows, collect),
            mount_error=errno_name(answer.errno) if answer.errno else "",
            kernel_log=answer.kernel_log,
            tainted=answer.tainted,
            seconds=answer.seconds,
        )

    def disturb(self, specification: Mapping[str, Any]) -> int:
        """Start a disturbance in the background; its number."""
        arguments = {"specification": dict(specification)}
        answer = self._call("disturb", arguments, NumberAnswer, timeout_seconds=ANSWER_SECONDS)
        return answer.number

    def calm(self) -> None:
        """End every disturbance and wait until they are gone."""
        self._do("calm", {})

    def start_shell(self, cwd: str, rows: int, columns: int) -> None:
        """Start a shell on the serial console, for a terminal of that size."""
        self._do("shell", {"cwd": to_wire(cwd), "rows": rows, "columns": columns})

    def _do(self, operation: str, arguments: Mapping[str, Any]) -> None:
        self._call(operation, arguments, NoAnswer, timeout_seconds=ANSWER_SECONDS)

    def _call(
        self,
        operation: str,
        arguments: Mapping[str, Any],
        answer: type[T],
        *,
        timeout_seconds: float = ANSWER_SECONDS,
        on_mark: Mark | None = None,
        on_content: Callable[[Content], None] | None = None,
    ) -> T:
        try:
            return self._channel.call(
                operation,
                arguments,
                answer,
                timeout_seconds=timeout_seconds,
                on_mark=on_mark,
                on_content=on_content,
            )
        finally:
            # Last, and so instead of any error of the guest's own: that would only be its effect.
            self._check_host()

    def _check_host(self) -> None:
        """Raise if something of the host's has failed that the guest takes for its own trouble."""

    def _collect(self, operation: str, arguments: Mapping[str, Any], answer: type[T]) -> T:
        try:
            return self._call(
                operation,
                arguments,
                answer,
                timeout_seconds=TREE_SECONDS,
                on_content=self._contents.take,
            )
        except UntrueTree as error:
            raise self._channel.broken(str(error)) from error

    def _tree(self, rows: Sequence[Row], collect: Sequence[str]) -> Tree:
        try:
            return self._contents.tree(rows, collect)
        except UntrueTree as error:
            raise self._channel.broken(str(error)) from error

    def _tree_arguments(self, exclude: Sequence[str], collect: Sequence[str]) -> dict[str, Any]:
        return {
            "exclude": [to_wire(prefix) for prefix in exclude],
            "collect": [to_wire(prefix) for prefix in collect],
            "forget": self._contents.start(),
        }


def _mount_failed(mount: Mount, name: str) -> MountFailed:
    options = f" with {mount.options}" if mount.options else ""
    return MountFailed(f"disk {mount.slot} does not mount as {mount.fstype}{options}: {name}", name)


def _mount_arguments(mount: Mount) -> dict[str, Any]:
    return {
        "slot": mount.slot,
        "fstype": to_wire(mount.fstype),
        "options": to_wire(mount.options),
        "at": to_wire(mount.at),
    }

"""A guest that is a room in the Vagrant VM (`vagrant_side`), driven through one ssh connection.

Its agent and its disks are unix sockets in a directory of ours alone, which ssh forwards; the
orders about the guest itself go by ssh's own input and output.
"""

import base64
import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Annotated, Any, TypeVar

import msgspec

from crashsim.disk.dm_log_writes import import_dm_log, mark_pieces
from crashsim.disk.log_writer import DISK_FULL_ERRNOS, RecordingDiskFull, RecordingFailed
from crashsim.disk.nbd import listen
from crashsim.errors import UsageError
from crashsim.machines.channel import Channel, Content, to_wire
from crashsim.machines.failures import Cause, GuestDied, MachineUnusable
from crashsim.machines.guest import NoAnswer
from crashsim.machines.hardware import CRASH_DISK_BYTES, CRASH_DISKS
from crashsim.machines.hosted_guest import HostedGuest
from crashsim.machines.protocol import MachineInfo

START_SECONDS = 180.0
ORDER_SECONDS = 180.0
LOG_SECONDS = 1800.0
END_SECONDS = 60.0
STDERR_BYTES_MAX = 2000
LOG_PIECE_BYTES_MAX = 1 << 20
T = TypeVar("T")


class CountAnswer(msgspec.Struct):
    """The answer to `count`."""

    count: Annotated[int, msgspec.Meta(ge=0)]


class LengthAnswer(msgspec.Struct):
    """The answer to `power_off`: how long the log is."""

    length_bytes: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]


class VagrantGuest(HostedGuest):
    """A guest in the Vagrant VM. Leaving its context ends it, and waits until the VM is tidy."""

    def __init__(self, info: MachineInfo, ssh: Sequence[str], code: str, number: int) -> None:
        """Start it.

        :param ssh: the command up to the options for the connection; the host's name comes last.
        :param code: the directory in the VM that has `vagrant_side.staging`'s files.
        :param number: one that no other guest in that directory has.

        Raises MachineUnusable or GuestDied when it does not come up.
        """
        super().__init__()
        self.info = info
        self.ended_in_order = False
        with self._resources:
            stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the guest
            self._stderr: IO[bytes] = self._resources.enter_context(stderr)
            directory = tempfile.mkdtemp(prefix="crashsim-vagrant-")
            self._resources.callback(shutil.rmtree, directory)
            prefix = f"{code}/{number}-"
            names = ["agent", *(f"disk{slot}" for slot in range(CRASH_DISKS))]
            forwards = [
                word for name in names for word in ("-R", f"{prefix}{name}:{directory}/{name}")
            ]
            agent_listener = self._resources.enter_context(listen(f"{directory}/agent"))
            self._serve(listen(f"{directory}/disk{slot}") for slot in range(CRASH_DISKS))
            ours, theirs = socket.socketpair()
            with theirs:
                remote = f"sudo env PYTHONPATH={code} python3 -S -m {_MAIN} {prefix}"
                self._ssh = subprocess.Popen(
                    [*ssh[:-1], *_FORWARDING, *forwards, ssh[-1], remote],
                    stdin=theirs.fileno(),
                    stdout=theirs.fileno(),
                    stderr=self._stderr.fileno(),
                    start_new_session=True,
                )
            self._resources.callback(self._end_ssh, ours)
            self._orders = Channel(ours, self._describe)
            agent_listener.settimeout(1.0)
            self._drive(Channel(self._accept(agent_listener), self._describe))
            if not self._channel.hello.wait(START_SECONDS) or self._channel.death is not None:
                raise self._describe(Cause.HUNG, "its agent does not say hello")
            self._resources = self._resources.pop_all()

    def record_disk(self, slot: int) -> "KernelLog":
        """Put the VM's spare disk in the place of disk `slot`, blank, and log what is written."""
        self._order("record", {"slot": slot}, NoAnswer)
        return KernelLog(self, slot)

    @property
    def is_over(self) -> bool:
        """Whether it was ended."""
        return self._killed

    def _order(
        self,
        operation: str,
        arguments: dict[str, Any],
        answer: type[T],
        *,
        timeout_seconds: float = ORDER_SECONDS,
        sink: IO[bytes] | None = None,
        limit_bytes: int = 0,
    ) -> T:
        def take(content: Content) -> None:
            assert sink is not None
            inflater = zlib.decompressobj()
            try:
                piece = inflater.decompress(base64.b64decode(content.data), LOG_PIECE_BYTES_MAX)
            except (ValueError, zlib.error) as error:
                raise self._orders.broken(f"a piece of the log that is none: {error}") from error
            if not inflater.eof or sink.tell() + len(piece) > limit_bytes:
                raise self._orders.broken("more of the log than there is")
            sink.write(piece)

        return self._orders.call(
            operation,
            arguments,
            answer,
            timeout_seconds=timeout_seconds,
            on_content=None if sink is None else take,
        )

    def _accept(self, listener: socket.socket) -> socket.socket:
        """The agent's connection, once ssh and the guest have come that far."""
        for _ in range(int(START_SECONDS)):
            try:
                return listener.accept()[0]
            except TimeoutError:
                if self._ssh.poll() is not None:
                    break
        raise MachineUnusable(
            f"no guest starts in the Vagrant VM: {self._complaint() or 'no word'}"
        )

    def _end_ssh(self, orders: socket.socket) -> None:
        """Hang up, and wait until everything in the VM has been taken down."""
        with contextlib.suppress(OSError):  # it has gone already
            orders.shutdown(socket.SHUT_WR)
        try:
            self.ended_in_order = self._ssh.wait(END_SECONDS) == 0
        except subprocess.TimeoutExpired:
            self._ssh.kill()
            self._ssh.wait()
        self._orders.close()

    def _describe(self, cause: Cause, what: str) -> GuestDied:
        if self._killed:
            return GuestDied(Cause.ENDED, "it was ended by this process")
        complaint = self._complaint()
        return GuestDied(cause, f"{what}; the VM says: {complaint}" if complaint else what)

    def _complaint(self) -> str:
        if self._stderr.closed:
            return ""
        size = os.fstat(self._stderr.fileno()).st_size
        start = max(0, size - STDERR_BYTES_MAX)
        data = os.pread(self._stderr.fileno(), STDERR_BYTES_MAX, start)
        return " ".join(data.decode("utf-8", "replace").split())


class KernelLog:
    """A disk that the guest's own kernel records. See `protocol.KernelLog`."""

    def __init__(self, guest: VagrantGuest, slot: int) -> None:
        """Of disk `slot`, which is recorded already."""
        self._guest = guest
        self._slot = slot

    @property
    def event_count(self) -> int:
        """How many entries the log has."""
        return self._guest._order("count", {"slot": self._slot}, CountAnswer).count

    def mark(self, text: str) -> None:
        """Put a mark into the log. Raises UsageError for one that is no UTF-8."""
        try:
            pieces = mark_pieces(text.encode())
        except UnicodeEncodeError as error:
            raise UsageError(
                f"--machine vagrant logs marks in UTF-8 only: {text[:80]!r}"
            ) from error
        for piece in pieces:
            arguments = {"slot": self._slot, "text": to_wire(piece.decode())}
            self._guest._order("mark", arguments, NoAnswer)

    def finish(self, directory: Path) -> None:
        """Cut the power of the disk, end the guest, and import its log into `directory`."""
        order = {"slot": self._slot}
        length = self._guest._order("power_off", order, LengthAnswer).length_bytes
        try:
            with tempfile.NamedTemporaryFile(prefix="crashsim-kernel-log-", dir=directory) as file:
                self._guest._order(
                    "log",
                    {**order, "length_bytes": length},
                    NoAnswer,
                    timeout_seconds=LOG_SECONDS,
                    sink=file,
                    limit_bytes=length,
                )
                file.flush()
                import_dm_log(Path(file.name), directory, CRASH_DISK_BYTES)
        except OSError as error:
            kind = RecordingDiskFull if error.errno in DISK_FULL_ERRNOS else RecordingFailed
            raise kind(f"cannot write the log into {directory}: {error.strerror}") from error


_MAIN = "crashsim.machines.vagrant_side.main"
_FORWARDING = (
    *("-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindUnlink=yes"),
    *("-o", "ControlPath=none", "-o", "ServerAliveInterval=15", "-o", "ServerAliveCountMax=8"),
)

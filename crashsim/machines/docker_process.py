"""A QEMU in a container of its own, as `QemuProcess` is one on the host.

Its channels are socket pairs here as there: their ends are passed to the container's first process
over one unix socket (SCM_RIGHTS, unix(7)), whose directory is gone once that has connected. That
connection is also what keeps the container alive: it ends with us, even when we are killed, and
the container with it; the daemon then removes it (`AutoRemove`).
"""

import atexit
import contextlib
import json
import os
import select
import shutil
import socket
import tempfile
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from crashsim.machines.docker_daemon import LABEL, client, is_conflict, owner_label
from crashsim.machines.docker_launcher import MESSAGE_BYTES_MAX
from crashsim.machines.failures import MachineUnusable
from crashsim.machines.qemu_process import KILL_SECONDS, QEMU, STDERR_BYTES_MAX

START_SECONDS = 120.0
MEETING_PLACE = "/run/crashsim"
_LAUNCHER = Path(__file__).with_name("docker_launcher.py")


@dataclass(frozen=True, slots=True)
class Container:
    """What a container is given of the host.

    :ivar image: the image's id.
    :ivar files: read-only, at the same path inside as outside.
    :ivar directories: the same, and writable.
    :ivar kvm: whether it gets /dev/kvm.
    """

    image: str
    files: tuple[Path, ...] = ()
    directories: tuple[Path, ...] = ()
    kvm: bool = False


class DockerProcess:
    """A running QEMU in a container.

    :ivar pid: the process id of the container's first process; 0 where that cannot be seen.
    """

    def __init__(
        self, container: Container, arguments: Sequence[str], descriptors: Sequence[int]
    ) -> None:
        """Start QEMU with `arguments`, inheriting `descriptors`. Raises MachineUnusable."""
        self._lock = threading.Lock()
        self._status: int | None = None
        self._last_words = ""
        with contextlib.ExitStack() as stack:
            self._stderr: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())
            with _meeting_place() as (directory, listener):
                self._id = _start(container, directory)
                stack.callback(_remove, self._id)
                self._connection = _accept(listener)
            stack.callback(self._connection.close)
            numbers = [2, *descriptors]
            self._init = self._launch(arguments, numbers, [self._stderr.fileno(), *descriptors])
            stack.pop_all()
        self.pid = _pid_of(self._init)
        _living.add(self)

    def wait(self, timeout_seconds: float) -> int | None:
        """QEMU's exit status once it has ended; None if it still runs then."""
        if self._status is None and select.select([self._connection], [], [], timeout_seconds)[0]:
            # Nothing at all is said by a container that was killed from outside.
            self._status = int(self._connection.recv(64) or b"-9")
        return self._status

    def stderr(self) -> str:
        """The end of what it complained about."""
        if self._stderr.closed:
            return self._last_words
        size = os.fstat(self._stderr.fileno()).st_size
        data = os.pread(self._stderr.fileno(), STDERR_BYTES_MAX, max(0, size - STDERR_BYTES_MAX))
        return data.decode("utf-8", "replace").strip()

    def kill(self) -> None:
        """End it and its container, and wait until the daemon has none. Idempotent."""
        with self._lock:
            if self._stderr.closed:
                return
            # Whoever else may have a copy of this end: it is over for both sides.
            self._connection.shutdown(socket.SHUT_RDWR)
            select.select([self._init], [], [], KILL_SECONDS)
            _remove(self._id)
            self._last_words = self.stderr()
            self._stderr.close()
            self._connection.close()
            os.close(self._init)
            _living.discard(self)

    def _launch(
        self, arguments: Sequence[str], numbers: list[int], descriptors: Sequence[int]
    ) -> int:
        """Have QEMU started; a pidfd of the container's first process."""
        message = json.dumps({"argv": [QEMU, *arguments], "numbers": numbers}).encode()
        if len(message) > MESSAGE_BYTES_MAX:
            raise MachineUnusable(f"QEMU's command line has {len(message)} bytes: too long")
        parent = os.pidfd_open(os.getpid())
        try:
            socket.send_fds(self._connection, [message], [parent, *descriptors])
        finally:
            os.close(parent)
        self._connection.settimeout(START_SECONDS)
        try:
            answer, received, _, _ = socket.recv_fds(self._connection, 64, 1)
        except OSError as error:
            raise MachineUnusable(f"QEMU does not start in its container: {error}") from error
        if answer != b"started":
            raise MachineUnusable("QEMU does not start in its container")
        return received[0]


_living: "weakref.WeakSet[DockerProcess]" = weakref.WeakSet()


@atexit.register
def _kill_the_rest() -> None:
    for process in list(_living):
        process.kill()


os.register_at_fork(after_in_child=_living.clear)


@contextlib.contextmanager
def _meeting_place() -> Iterator[tuple[str, socket.socket]]:
    """A directory of ours alone with a socket `launch` in it, and that socket; gone afterwards."""
    directory = tempfile.mkdtemp(prefix="crashsim-docker-")
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                # The path itself may be longer than a socket's may be.
                listener.bind(f"/proc/self/fd/{descriptor}/launch")
            finally:
                os.close(descriptor)
            listener.listen(1)
            listener.settimeout(START_SECONDS)
            yield directory, listener
    finally:
        shutil.rmtree(directory)


def _accept(listener: socket.socket) -> socket.socket:
    try:
        return listener.accept()[0]
    except TimeoutError as error:
        raise MachineUnusable(
            f"a container has not come up in {START_SECONDS:.0f} s: does the daemon run on another "
            "machine, or in a container that does not share this directory?"
        ) from error


def _start(container: Container, directory: str) -> str:
    """Create and start a container whose first process will connect; its id."""
    from docker.errors import DockerException
    from docker.types import Mount

    def mount(path: str, inside: str, *, read_only: bool) -> Mount:
        return Mount(inside, path, type="bind", read_only=read_only)

    mounts = [mount(directory, MEETING_PLACE, read_only=True)]
    mounts += [mount(str(path), str(path), read_only=True) for path in container.files]
    mounts += [mount(str(path), str(path), read_only=False) for path in container.directories]
    launcher = ["python3", "-I", "-S", "-c", _LAUNCHER.read_text(), f"{MEETING_PLACE}/launch"]
    try:
        created = client().containers.create(
            container.image,
            launcher,
            labels={LABEL: owner_label()},
            auto_remove=True,
            mounts=mounts,
            user=f"{os.geteuid()}:{os.getegid()}",
            group_add=[os.stat("/dev/kvm").st_gid] if container.kvm else [],
            devices=["/dev/kvm"] if container.kvm else [],
            network_mode="none",
            read_only=True,
            cap_drop=["ALL"],
            security_opt=["no-new-privileges"],
            log_config={"type": "none"},
        )
        try:
            created.start()
        except BaseException:
            _remove(created.id)
            raise
    except DockerException as error:
        raise MachineUnusable(f"the Docker daemon starts no container: {error}") from error
    return str(created.id)


def _remove(identity: str) -> None:
    """Make sure that the daemon has no such container any more."""
    from docker.errors import APIError, NotFound

    try:
        client().api.remove_container(identity, force=True, v=True)
    except NotFound:
        return
    except APIError as error:
        if not is_conflict(error):
            raise
        with contextlib.suppress(NotFound):
            client().api.wait(identity, condition="removed")


def _pid_of(pidfd: int) -> int:
    """A process's number as this namespace has it: proc(5), fdinfo."""
    lines = Path(f"/proc/self/fdinfo/{pidfd}").read_text().splitlines()
    return max(0, next(int(line.split()[1]) for line in lines if line.startswith("Pid:")))

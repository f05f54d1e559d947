"""QEMU processes that end with this one, whatever happens to it.

Every channel to a QEMU is a socket pair whose one end it inherits, so nothing has a name in any
directory. The kernel kills it when we die: PR_SET_PDEATHSIG (prctl(2)), set by setpriv(1). That
signal is sent when the *thread* that forked ends, hence one thread here which forks them all and
lives as long as the process. Should we die before the signal is set, then nobody answers QEMU's NBD
handshake, without which it does not start.
"""

import atexit
import contextlib
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import IO, Protocol

from crashsim.machines.failures import MachineUnusable

QEMU = "qemu-system-x86_64"
STDERR_BYTES_MAX = 4096
KILL_SECONDS = 30.0


class RunningQemu(Protocol):
    """A running QEMU, wherever it runs."""

    pid: int

    def wait(self, timeout_seconds: float) -> int | None:
        """The exit status once it has ended; None if it still runs then."""

    def stderr(self) -> str:
        """The end of what it complained about."""

    def kill(self) -> None:
        """End it at once. Idempotent, from any thread."""


Launch = Callable[[Sequence[str], Sequence[int]], RunningQemu]
"""Starts QEMU with arguments, inheriting descriptors. Raises MachineUnusable."""


class QemuProcess:
    """A running QEMU on this host.

    :ivar pid: its process id, for tests and messages.
    """

    def __init__(self, arguments: Sequence[str], descriptors: Sequence[int]) -> None:
        """Start QEMU with `arguments`, inheriting `descriptors`. Raises MachineUnusable."""
        with contextlib.ExitStack() as stack:
            self._stderr: IO[bytes] = stack.enter_context(tempfile.TemporaryFile())
            argv = ["setpriv", "--pdeathsig", "KILL", "--", QEMU, *arguments]
            try:
                self._process = _spawner().spawn(argv, descriptors, self._stderr.fileno())
            except FileNotFoundError as error:
                raise MachineUnusable(
                    "setpriv is not installed: install the Debian package util-linux"
                ) from error
            stack.pop_all()
        self.pid = self._process.pid
        self._last_words = ""
        self._lock = threading.Lock()
        _living.add(self)

    def wait(self, timeout_seconds: float) -> int | None:
        """The exit status once it has ended; None if it still runs then."""
        try:
            return self._process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            return None

    def stderr(self) -> str:
        """The end of what it complained about."""
        if self._stderr.closed:
            return self._last_words
        size = os.fstat(self._stderr.fileno()).st_size
        start = max(0, size - STDERR_BYTES_MAX)
        data = os.pread(self._stderr.fileno(), STDERR_BYTES_MAX, start)
        return data.decode("utf-8", "replace").strip()

    def kill(self) -> None:
        """End it by SIGKILL and reap it. Idempotent, from any thread."""
        with self._lock:
            self._process.kill()
            self._process.wait(KILL_SECONDS)
            self._last_words = self.stderr()
            self._stderr.close()
            _living.discard(self)


_living: "weakref.WeakSet[QemuProcess]" = weakref.WeakSet()


@atexit.register
def _kill_the_rest() -> None:
    for process in list(_living):
        process.kill()


class _Spawner:
    """Forks on behalf of every other thread."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[
            tuple[Future[subprocess.Popen[bytes]], list[str], tuple[int, ...], int]
        ] = queue.SimpleQueue()
        threading.Thread(target=self._run, name="qemu-spawner", daemon=True).start()

    def spawn(
        self, argv: list[str], descriptors: Sequence[int], stderr: int
    ) -> subprocess.Popen[bytes]:
        future: Future[subprocess.Popen[bytes]] = Future()
        self._requests.put((future, argv, tuple(descriptors), stderr))
        return future.result()

    def _run(self) -> None:
        while True:
            future, argv, descriptors, stderr = self._requests.get()
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                    pass_fds=descriptors,
                    # Ctrl-C at the terminal is for us to handle: we end our guests ourselves.
                    start_new_session=True,
                )
            except OSError as error:
                future.set_exception(error)
            else:
                future.set_result(process)


_spawner_lock = threading.Lock()
_the_spawner: _Spawner | None = None


def _spawner() -> _Spawner:
    global _the_spawner
    with _spawner_lock:
        if _the_spawner is None:
            _the_spawner = _Spawner()
        return _the_spawner


def _forget_after_fork() -> None:
    """A forked child has neither the thread nor any right to the parent's guests."""
    global _the_spawner, _spawner_lock
    _the_spawner = None
    _spawner_lock = threading.Lock()
    _living.clear()


os.register_at_fork(after_in_child=_forget_after_fork)


def qemu_version() -> str:
    """The first line that QEMU says of its version. Raises MachineUnusable if it is not there."""
    if shutil.which(QEMU) is None:
        raise MachineUnusable(
            f"{QEMU} is not installed: install the Debian package qemu-system-x86"
        )
    try:
        done = subprocess.run([QEMU, "--version"], capture_output=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineUnusable(f"{QEMU} does not even say its version: {error}") from error
    return done.stdout.decode("utf-8", "replace").partition("\n")[0].strip()

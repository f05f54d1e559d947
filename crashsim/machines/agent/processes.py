"""Commands that the host asks for: started here, watched by the agent's loop, killed in time."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

PIPE_READ_BYTES = 1 << 16
KILL_SECONDS_MAX = 10.0
KILL_ROUND_SECONDS = 0.002


class CannotKill(Exception):
    """Processes keep appearing faster than they can be killed, or do not die."""


@dataclass
class Output:
    """One output of a command, kept up to a limit.

    :ivar descriptor: the pipe's end, non-blocking; closed by `close`.
    """

    descriptor: int
    limit_bytes: int
    pieces: list[bytes] = field(default_factory=list)
    size: int = 0
    ended: bool = False

    def drain(self) -> None:
        """Take what is in the pipe; past the limit it is thrown away, so that nobody blocks."""
        while not self.ended:
            try:
                data = os.read(self.descriptor, PIPE_READ_BYTES)
            except BlockingIOError:
                return
            if not data:
                self.ended = True
            elif self.size < self.limit_bytes:
                data = data[: self.limit_bytes - self.size]
                self.pieces.append(data)
                self.size += len(data)

    def close(self) -> bytes:
        """What was read."""
        os.close(self.descriptor)
        return b"".join(self.pieces)


@dataclass
class Command:
    """A running command.

    :ivar process_descriptor: a pidfd: readable when the process has ended (pidfd_open(2)).
    """

    process: "subprocess.Popen[bytes]"
    process_descriptor: int
    outputs: tuple[Output, Output]
    started: float
    deadline: float

    def finish(self, timed_out: bool) -> dict[str, Any]:
        """Collect its outcome, once the process has ended or was killed.

        Background processes may hold the pipes open for ever: what is in them now is what counts.
        """
        returncode = self.process.wait()
        seconds = time.monotonic() - self.started
        os.close(self.process_descriptor)
        for output in self.outputs:
            output.drain()
        stdout, stderr = (output.close() for output in self.outputs)
        return {
            "returncode": returncode,
            "stdout": stdout,
            "stderr": stderr,
            "seconds": seconds,
            "timed_out": timed_out,
        }


def start(
    argv: Sequence[str],
    cwd: str,
    environment: Mapping[str, str],
    stdin: bytes,
    timeout_seconds: float,
    output_limit_bytes: int,
) -> Command:
    """Start a command in a session of its own. Raises OSError when it cannot be started."""
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        source: int = subprocess.DEVNULL
        if stdin:
            # A file in memory: the command may read it at its leisure, and nobody has to feed it.
            source = os.memfd_create("stdin")
            stack.callback(os.close, source)
            view = memoryview(stdin)
            while view:
                view = view[os.write(source, view) :]
            os.lseek(source, 0, os.SEEK_SET)
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(2)]
        for _, end in pipes:
            stack.callback(os.close, end)
        try:
            process = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env={**os.environ, **environment},
                stdin=source,
                stdout=pipes[0][1],
                stderr=pipes[1][1],
                start_new_session=True,
            )
        except BaseException:
            for end, _ in pipes:
                os.close(end)
            raise
    for end, _ in pipes:
        os.set_blocking(end, False)
    outputs = (Output(pipes[0][0], output_limit_bytes), Output(pipes[1][0], output_limit_bytes))
    return Command(process, os.pidfd_open(process.pid), outputs, started, started + timeout_seconds)


def kill_descendants(spare: Callable[[int], bool]) -> None:
    """Kill everything that descends from this process, except where `spare` says no.

    The agent is a child subreaper (prctl(2)), so what a command leaves behind by double forks and
    new sessions is still its descendant. Rounds, since a process may fork while it is being found.
    Nothing is reaped here. Raises CannotKill.
    """
    deadline = time.monotonic() + KILL_SECONDS_MAX
    while victims := _descendants(os.getpid(), spare):
        if time.monotonic() > deadline:
            raise CannotKill(f"{len(victims)} processes do not die: {victims[:10]}")
        for process in victims:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        time.sleep(KILL_ROUND_SECONDS)


def reap_orphans(spare: Callable[[int], bool]) -> None:
    """Reap ended children that nobody waits for; those that `spare` names have their owner."""
    while True:
        try:
            status = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if status is None or spare(status.si_pid):
            return
        os.waitpid(status.si_pid, 0)


def _descendants(ancestor: int, spare: Callable[[int], bool]) -> list[int]:
    """Living (not zombie) descendants, in no order."""
    children: dict[int, list[int]] = {}
    zombies = set()
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                line = file.read()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended meanwhile
        # The command's name, in parentheses, may hold anything: proc_pid_stat(5).
        state, parent = line.rpartition(b")")[2].split()[:2]
        children.setdefault(int(parent), []).append(int(name))
        if state in (b"Z", b"X"):
            zombies.add(int(name))
    found = []
    pending = [ancestor]
    while pending:
        for process in children.get(pending.pop(), []):
            if not spare(process):
                pending.append(process)
                if process not in zombies:
                    found.append(process)
    return found

"""Commands of the agent: outputs, ends, and who gets killed. Real processes of this host."""

import gc
import os
import signal
import subprocess
import sys

import pytest

from crashsim.machines.agent.processes import Command, Output, start


def run(argv: list[str], limit: int = 1000, stdin: bytes = b"") -> dict[str, object]:
    command = start(argv, "/", {"WHO": "me"}, stdin, 20, limit)
    # As the loop does: take what comes, until the process has ended.
    while command.process.poll() is None:
        for output in command.outputs:
            output.drain()
    return command.finish(timed_out=False)


def test_outputs_are_kept_up_to_the_limit_and_drained_beyond() -> None:
    outcome = run(["sh", "-c", "head -c 500000 /dev/zero; echo short >&2"], limit=7)

    assert outcome["returncode"] == 0
    assert outcome["stdout"] == bytes(7)
    assert outcome["stderr"] == b"short\n"


def test_input_and_environment_arrive() -> None:
    outcome = run(["sh", "-c", 'cat; printf "%s" "$WHO"'], stdin=b"in\0put")

    assert outcome["stdout"] == b"in\0putme"


def open_descriptors() -> set[str]:
    """This process' own, without those that only wait for the garbage collector."""
    gc.collect()
    return set(os.listdir("/proc/self/fd"))


def test_nothing_leaks_when_a_command_cannot_start() -> None:
    before = open_descriptors()
    for _ in range(3):
        with pytest.raises(FileNotFoundError):
            start(["no-such-program"], "/", {}, b"input", 20, 100)

    assert open_descriptors() <= before


def test_a_finished_command_leaves_no_descriptor() -> None:
    before = open_descriptors()
    run(["true"])

    assert open_descriptors() <= before


def test_a_background_process_does_not_delay_the_end() -> None:
    command: Command = start(["sh", "-c", "sleep 600 & echo $!"], "/", {}, b"", 20, 100)
    command.process.wait(20)
    outcome = command.finish(timed_out=False)
    assert isinstance(outcome["stdout"], bytes)
    os.kill(int(outcome["stdout"]), signal.SIGKILL)


def test_an_output_that_has_ended_stays_ended() -> None:
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    output = Output(readable, 100)
    output.drain()
    assert not output.ended
    os.write(writable, b"x")
    os.close(writable)
    output.drain()
    output.drain()

    assert output.ended
    assert output.close() == b"x"


# In a process of its own: the subreaper, the signals and the killing concern all its children.
KILLING = """
import os, signal, subprocess, sys, time
from crashsim.machines.agent import processes, service

service.become_subreaper()
spared = subprocess.Popen(["sleep", "600"])
victims = subprocess.Popen(["sh", "-c",
    "trap '' TERM; (setsid sh -c 'sleep 600 & echo ready; sleep 600' &); sleep 600 & wait"],
    stdout=subprocess.PIPE)
assert victims.stdout.readline() == b"ready\\n"
processes.kill_descendants(lambda process: process == spared.pid)
assert victims.wait() == -signal.SIGKILL
processes.reap_orphans(lambda process: process == spared.pid)
left = processes._descendants(os.getpid(), lambda process: False)
assert left == [spared.pid], left
assert spared.poll() is None
spared.kill()
spared.wait()
try:
    os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
except ChildProcessError:
    print("nothing is left")
"""


def test_killing_reaches_every_descendant_but_the_spared() -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLING], capture_output=True, timeout=60, check=False
    )

    assert done.stdout == b"nothing is left\n", done.stderr.decode()


REAPING = """
import json, os, socket, subprocess, sys, threading
from crashsim.machines.agent import service
from crashsim.machines.agent.marks import MarkServer

class QuietLog:
    def forward(self): pass
    def read(self): return ""

service.MarkServer = lambda selector, port: MarkServer(selector, port, sys.argv[1])
service.KernelLog = QuietLog
service.become_subreaper()
ours, theirs = socket.socketpair()
agent = service.Service(theirs.fileno())

def host():
    # The orphan ends while no request is being served; its parent has long gone.
    script = "(sleep 0.2 & echo $!) "
    arguments = {"argv": ["sh", "-c", script], "cwd": "/", "environment": {}, "stdin": "",
        "timeout_seconds": 20, "output_limit_bytes": 100, "marks": False}
    ours.sendall(json.dumps({"id": 1, "op": "run", "arguments": arguments}).encode() + b"\\n")
    result = json.loads(ours.makefile().readline())["result"]
    import base64
    orphan = int(base64.b64decode(result["stdout"]))
    watch = os.pidfd_open(orphan)
    import select
    assert select.select([watch], [], [], 20)[0]
    while os.path.exists(f"/proc/{orphan}"):
        pass
    print("reaped", flush=True)
    os._exit(0)

threading.Thread(target=host, daemon=True).start()
agent.loop()
"""


def test_orphans_are_reaped_as_soon_as_they_end(tmp_path: object) -> None:
    done = subprocess.run(
        [sys.executable, "-c", REAPING, f"{tmp_path}/marks"],
        capture_output=True,
        timeout=60,
        check=False,
    )

    assert done.stdout == b"reaped\n", done.stderr.decode()

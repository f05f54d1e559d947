"""`crashsim shell`: by hand on a terminal, and for one command."""

import subprocess
import sys

import pexpect
import pytest

from crashsim.machines.qemu import QemuMachine

pytestmark = pytest.mark.vm

CRASHSIM = [sys.executable, "-m", "crashsim.cli"]
PROMPT = r"\[crashsim\] {} [#$] "


@pytest.fixture(autouse=True)
def _booted(machine: QemuMachine) -> None:
    machine.snapshot()


def test_one_command_prints_its_output_and_gives_its_status() -> None:
    script = "pwd; grep -c ' /mnt/0 btrfs ' /proc/mounts; echo \"it's\" >&2; exit 7"

    done = subprocess.run(
        [*CRASHSIM, "shell", "--fs", "btrfs", "--", "sh", "-c", script],
        capture_output=True,
        timeout=120,
        check=False,
    )

    assert done.stdout == b"/mnt/0\n1\nit's\n"
    assert done.returncode == 7, done.stderr


def test_without_a_terminal_a_command_is_asked_for() -> None:
    done = subprocess.run(
        [*CRASHSIM, "shell"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 2
    assert b"crashsim shell -- COMMAND" in b" ".join(done.stderr.split())


def test_a_command_that_takes_too_long_is_given_up() -> None:
    done = subprocess.run(
        [*CRASHSIM, "shell", "--timeout", "1", "--", "sleep", "1000"],
        capture_output=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 3


@pytest.mark.parametrize("ending", ["exit 5\r", "\x1d"], ids=["exit", "Ctrl-]"])
def test_a_shell_works_by_hand(ending: str) -> None:
    with pexpect.spawn(
        CRASHSIM[0],
        [*CRASHSIM[1:], "shell", "--fs", "ext4"],
        timeout=90,
        dimensions=(33, 111),
        encoding="utf-8",
    ) as terminal:
        prompt = PROMPT.format("/mnt/0")
        terminal.expect(prompt)
        terminal.sendline("stty size; tty")
        terminal.expect("33 111\r+\n/dev/ttyS0")
        terminal.expect(prompt)
        # The process that says it sleeps is in the foreground by then.
        terminal.sendline("sh -c 'echo sleeping $((40 + 1)); exec sleep 1000'")
        terminal.expect("sleeping 41")
        terminal.sendintr()  # for the guest's process, not for crashsim
        terminal.expect(prompt)
        terminal.sendline("test $? -gt 128 && echo by signal $((40 + 2))")
        terminal.expect("by signal 42")
        terminal.expect(prompt)
        terminal.send(ending)
        terminal.expect("the guest is gone")
        terminal.expect(pexpect.EOF)
        terminal.wait()
        assert terminal.exitstatus == (5 if ending.startswith("exit") else 0)

"""A shell on the serial console, for hands-on work: `crashsim shell`, `crashsim repro --shell`."""

import os
import subprocess

CONSOLE = "/dev/ttyS0"


def start(cwd: str) -> None:
    """Start an interactive shell on the console, in `cwd`. Raises OSError.

    setsid --ctty makes the console its controlling terminal: job control and Ctrl-C work.
    """
    console = os.open(CONSOLE, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        subprocess.Popen(
            ["setsid", "--ctty", "/bin/bash", "--noprofile", "--norc", "-i"],
            cwd=cwd,
            stdin=console,
            stdout=console,
            stderr=console,
            env={**os.environ, "PS1": r"[crashsim guest] \w \$ "},
        )
    finally:
        os.close(console)

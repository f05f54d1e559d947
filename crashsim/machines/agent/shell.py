"""A shell on the serial console, for hands-on work: `crashsim shell`, `crashsim repro --shell`."""

import fcntl
import os
import struct
import subprocess
import termios

CONSOLE = "/dev/ttyS0"
FAREWELL = "crashsim: the shell has ended with status"
PROMPT = r"[crashsim] \w \$ "
_SCRIPT = f"bash --noprofile --norc -i; printf '\\n{FAREWELL} %d\\n' $?"


def start(cwd: str, rows: int, columns: int) -> None:
    """Start an interactive shell on the console, in `cwd`. Raises OSError.

    setsid --ctty makes the console its controlling terminal: job control and Ctrl-C work. When it
    ends it says so by a line that begins with FAREWELL.
    """
    console = os.open(CONSOLE, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        # A serial line tells nobody how large the terminal at its other end is.
        fcntl.ioctl(console, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        subprocess.Popen(
            ["setsid", "--ctty", "/bin/sh", "-c", _SCRIPT],
            cwd=cwd,
            stdin=console,
            stdout=console,
            stderr=console,
            env={**os.environ, "PS1": PROMPT},
        )
    finally:
        os.close(console)

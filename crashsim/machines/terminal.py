"""A shell in a guest, over its serial console: by hand, or for one command."""

import contextlib
import os
import re
import secrets
import selectors
import shlex
import sys
import termios
import tty
from collections.abc import Callable, Iterator, Sequence

import pexpect
from pexpect.fdpexpect import fdspawn

from crashsim.errors import InfrastructureError, UsageError
from crashsim.machines.agent.shell import FAREWELL
from crashsim.machines.protocol import Guest
from crashsim.machines.qemu_guest import QemuGuest

LEAVE = b"\x1d"
"""Ctrl-], as telnet(1) has it: ends the session, and with it the guest."""

LINE_BYTES_MAX = 4000
"""A terminal's line discipline takes lines of at most 4095 bytes (termios(3))."""

PROMPT_SECONDS = 60.0
_BLOCK_BYTES = 1 << 14
_FAREWELL = re.compile(rb"^" + re.escape(FAREWELL.encode()) + rb" (\d{1,3})\r?$", re.MULTILINE)


class NoConsole(UsageError):
    """This kind of machine has no serial console to work at."""


class TerminalLost(InfrastructureError):
    """The guest's console ended, or its shell did not answer."""


def run_command(
    guest: Guest,
    argv: Sequence[str],
    cwd: str,
    timeout_seconds: float,
    write: Callable[[bytes], object],
) -> int:
    """Run one command in a shell on the console; its exit status.

    What the command printed (both outputs, as on a terminal) goes to `write`.
    """
    marker = secrets.token_hex(8)
    # The marker is put together by the shell, so that no echo of this line can be taken for it.
    command = f"{shlex.join(argv)}; printf '\\n%s%s %d\\n' {marker[:8]} {marker[8:]} $?"
    if len(command.encode()) > LINE_BYTES_MAX:
        raise UsageError(f"the command is longer than {LINE_BYTES_MAX} bytes; put it into a file")
    with _shell(guest, cwd) as terminal:
        terminal.sendline("bind 'set enable-bracketed-paste off'; stty -echo -onlcr; PS1=; PS2=")
        terminal.sendline(f"printf '%s%s\\n' {marker[8:]} {marker[:8]}")
        _expect(terminal, rf"{marker[8:]}{marker[:8]}\n", PROMPT_SECONDS)
        terminal.sendline(command)
        ended = _expect(terminal, rf"\n{marker} (\d{{1,3}})\n", timeout_seconds)
        write(terminal.before or b"")
        return int(ended.group(1))


def interact(guest: Guest, cwd: str) -> int:
    """Connect this process's terminal with a shell on the guest's console, until it ends.

    Gives the shell's exit status; 0 when the user left with Ctrl-].
    """
    with _shell(guest, cwd) as terminal, _raw_terminal():
        return _copy(terminal.fileno())


def _copy(console: int) -> int:
    """Copy both ways between the user's terminal and the console."""
    keyboard, screen = sys.stdin.fileno(), sys.stdout.fileno()
    recent = b""
    with selectors.DefaultSelector() as selector:
        selector.register(keyboard, selectors.EVENT_READ)
        selector.register(console, selectors.EVENT_READ)
        while True:
            ready = {key.fd for key, _ in selector.select()}
            if keyboard in ready:
                keys = os.read(keyboard, 1024)
                if not keys or LEAVE in keys:
                    return 0
                os.write(console, keys)
            if console in ready:
                output = os.read(console, _BLOCK_BYTES)
                if not output:
                    raise TerminalLost("the guest has ended")
                os.write(screen, output)
                recent = (recent + output)[-256:]
                ended = _FAREWELL.search(recent)
                if ended:
                    return int(ended.group(1))


@contextlib.contextmanager
def _shell(guest: Guest, cwd: str) -> Iterator["fdspawn[bytes]"]:
    if not isinstance(guest, QemuGuest):
        raise NoConsole(f"a guest of machine {guest.info.kind} has no serial console")
    connection = guest.take_console()
    connection.setblocking(True)
    # Not the variables COLUMNS and LINES, which say nothing about this terminal.
    columns, rows = os.get_terminal_size() if sys.stdout.isatty() else (80, 24)
    guest.start_shell(cwd, rows, columns)
    terminal: fdspawn[bytes] = fdspawn(connection.fileno(), timeout=PROMPT_SECONDS)
    # Not closed here: the socket is the guest's.
    yield terminal


def _expect(terminal: "fdspawn[bytes]", pattern: str, timeout_seconds: float) -> re.Match[bytes]:
    try:
        terminal.expect(pattern, timeout=timeout_seconds)
    except pexpect.EOF as error:
        raise TerminalLost(f"the guest has ended; its console: {_tail(terminal)}") from error
    except pexpect.TIMEOUT as error:
        raise TerminalLost(
            f"the guest's shell said nothing more for {timeout_seconds:.0f} s: {_tail(terminal)}"
        ) from error
    match = terminal.match
    assert isinstance(match, re.Match)
    return match


def _tail(terminal: "fdspawn[bytes]") -> str:
    return repr((terminal.before or b"")[-400:].decode("utf-8", "replace"))


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Pass every key on, Ctrl-C included, while the context lasts."""
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)

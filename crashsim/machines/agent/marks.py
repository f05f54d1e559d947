"""Marks, the guest's side: `crashsim-mark TEXT` tells the host and waits for its answer.

The program is a short script of perl, which is essential in Debian and starts several times faster
under emulation than Python: a mark's cost is part of every workload. Each mark is a connection of
its own on a unix socket, so programs may mark concurrently, or be killed while they do.
"""

import contextlib
import os
import selectors
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from .wire import send

SOCKET_PATH = "/run/crashsim/mark.socket"
PROGRAM_PATH = "/usr/local/bin/crashsim-mark"
TEXT_BYTES_MAX = 1 << 16
CLIENTS_MAX = 64

PROGRAM = f"""#!/usr/bin/perl
# crashsim-mark TEXT...: returns 0 once the mark is in the recording, else says why and returns 3;
# 2 for a text that cannot be a mark.
my $text = join ' ', @ARGV;
if (!@ARGV || $text =~ /\\n/ || length $text > {TEXT_BYTES_MAX}) {{
    print STDERR "crashsim-mark: needs a text, of one line and at most {TEXT_BYTES_MAX} bytes\\n";
    exit 2;
}}
my ($host, $answer);
if (socket($host, 1, 1, 0) && connect($host, pack 'Sa108', 1, '{SOCKET_PATH}')) {{
    my $line = "$text\\n";
    while (length $line) {{
        my $count = syswrite $host, $line or last;
        substr($line, 0, $count) = '';
    }}
    sysread $host, $answer, 256;
}}
exit 0 if $answer eq "ok\\n";
print STDERR 'crashsim-mark: ', $answer || "no answer: $!\\n";
exit 3;
"""


@dataclass
class Client:
    """One program that makes a mark."""

    connection: socket.socket
    text: bytearray = field(default_factory=bytearray)
    number: int | None = None


class MarkServer:
    """Takes marks from programs and hands them to the host, through the agent's loop.

    :ivar recording: whether the host wants marks now.
    """

    def __init__(
        self, selector: selectors.BaseSelector, port: int, path: str = SOCKET_PATH
    ) -> None:
        """Listen at `path`; send marks to the descriptor `port`."""
        self.recording = False
        self._selector = selector
        self._port = port
        self._waiting: dict[int, Client] = {}
        self._count = 0
        self._clients = 0
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(path)
        os.chmod(path, 0o666)  # workloads may run as any user
        self._listener.listen(CLIENTS_MAX)
        self._listener.setblocking(False)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def answer(self, number: int, problem: str) -> None:
        """Let the program go on whose mark has this number; an empty `problem` means success."""
        client = self._waiting.pop(number, None)
        if client is not None:
            self._end(client, problem)

    def _accept(self) -> None:
        connection, _ = self._listener.accept()
        connection.setblocking(False)
        client = Client(connection)
        self._clients += 1
        handler: Callable[[], None] = lambda: self._read(client)  # noqa: E731
        self._selector.register(connection, selectors.EVENT_READ, handler)

    def _read(self, client: Client) -> None:
        try:
            data = client.connection.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            data = b""  # reset: the program was killed
        client.text += data
        if not data or client.number is not None or len(client.text) > TEXT_BYTES_MAX + 1:
            # Gone, or it says more than one line. If the host has its mark already, the mark stays.
            self._waiting.pop(client.number if client.number is not None else -1, None)
            self._end(client, "a mark is one line")
        elif client.text.endswith(b"\n"):
            self._forward(client)

    def _forward(self, client: Client) -> None:
        text = bytes(client.text[:-1])
        if b"\n" in text:
            self._end(client, "a mark is one line")
        elif not self.recording:
            self._end(client, "nothing is being recorded")
        else:
            self._count += 1
            client.number = self._count
            self._waiting[client.number] = client
            send(self._port, {"mark": client.number, "text": text.decode("latin-1")})

    def _end(self, client: Client, problem: str) -> None:
        self._selector.unregister(client.connection)
        with contextlib.suppress(OSError):  # it may have been killed while it waited
            client.connection.send(f"{problem or 'ok'}\n".encode())
        client.connection.close()
        self._clients -= 1


def install_program(path: str = PROGRAM_PATH) -> None:
    """Put `crashsim-mark` on the guest's PATH."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(PROGRAM)
    os.chmod(path, 0o755)

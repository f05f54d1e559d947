"""Marks, the guest's side: `crashsim-mark TEXT` tells the host and waits for its answer.

A mark's cost is part of every workload, and in an emulated guest the dearest thing about it is to
start a program: 9 ms for the static busybox, 40 for anything that is linked dynamically, 130 for
perl. So the program is a script of busybox' shell that starts nothing else, which leaves named
pipes.

There are several *slots*, each a pair of pipes: the text goes in by one, the answer comes out by
the other. A free slot is one byte, its letter, in the pipe `free`: a read of one byte takes it, so
no two programs ever have the same slot, and the program itself puts the letter back when it has
its answer. A program that is killed in between never does. That slot is lost until the next
`reset`, but neither half a text nor an answer that nobody has read can ever reach the next
program.
"""

import contextlib
import os
import selectors
import shutil
from dataclasses import dataclass

from .wire import Hangup, LineReader, send

DIRECTORY = "/run/crashsim/marks"
PROGRAM_PATH = "/usr/local/bin/crashsim-mark"
TEXT_BYTES_MAX = 1 << 16
SLOTS = "abcdefghijklmnop"

PROGRAM = """#!/bin/busybox sh
# crashsim-mark TEXT...: returns 0 once the mark is in the recording; 3, with the reason, if it
# cannot be; 2 for a text that cannot be a mark.
text=$*
newline='
'
case $text in '' | *"$newline"*)
    echo 'crashsim-mark: a mark is one line of text' >&2
    exit 2 ;;
esac
read -r -n 1 slot <{directory}/free
printf '%s\\n' "$text" >{directory}/$slot.text
read -r answer <{directory}/$slot.answer
printf %s "$slot" >{directory}/free
[ "$answer" = ok ] && exit 0
echo "crashsim-mark: $answer" >&2
exit 3
"""


@dataclass
class _Slot:
    """The agent's ends of a slot's pipes, and the number of the mark that waits for its answer."""

    text: int
    answer: int
    reader: LineReader
    number: int | None = None


class MarkServer:
    """Takes marks from programs and hands them to the host, through the agent's loop.

    :ivar recording: whether the host wants marks now.
    """

    def __init__(
        self, selector: selectors.BaseSelector, port: int, directory: str = DIRECTORY
    ) -> None:
        """Make the pipes in `directory`; send marks to the descriptor `port`."""
        self.recording = False
        self._selector = selector
        self._port = port
        self._directory = directory
        self._count = 0
        self._free = -1
        self._slots: list[_Slot] = []
        self.reset()

    def reset(self) -> None:
        """Make all pipes anew. Programs that still use the old ones get no answer any more."""
        self.close()
        shutil.rmtree(self._directory, ignore_errors=True)
        os.makedirs(self._directory)
        self._free = self._make_pipe("free")
        self._slots = [self._make_slot(letter) for letter in SLOTS]
        os.write(self._free, SLOTS.encode())

    def close(self) -> None:
        """Close all pipes."""
        for slot in self._slots:
            self._selector.unregister(slot.text)
            os.close(slot.text)
            os.close(slot.answer)
        self._slots = []
        if self._free >= 0:
            os.close(self._free)
            self._free = -1

    def answer(self, number: int, problem: str) -> None:
        """Let the program go on whose mark has this number; an empty `problem` means success."""
        for slot in self._slots:
            if slot.number == number:
                slot.number = None
                self._answer(slot, problem)

    def _make_slot(self, letter: str) -> _Slot:
        text, answer = (self._make_pipe(f"{letter}.{name}") for name in ("text", "answer"))
        slot = _Slot(text, answer, LineReader(text, TEXT_BYTES_MAX))
        self._selector.register(text, selectors.EVENT_READ, lambda: self._read(slot))
        return slot

    def _make_pipe(self, name: str) -> int:
        """A named pipe, open at both ends: so nobody's open(2) ever waits (fifo(7))."""
        path = f"{self._directory}/{name}"
        os.mkfifo(path)
        os.chmod(path, 0o666)  # workloads may run as any user
        return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)

    def _read(self, slot: _Slot) -> None:
        try:
            lines = slot.reader.read()
        except BlockingIOError:
            return
        except Hangup as error:
            raise AssertionError("a pipe that is open for writing here has ended") from error
        for line in lines:
            if line is None:
                self._answer(slot, f"a mark has at most {TEXT_BYTES_MAX} bytes")
            elif not self.recording:
                self._answer(slot, "nothing is being recorded")
            else:
                self._count += 1
                slot.number = self._count
                send(self._port, {"mark": slot.number, "text": line.decode("latin-1")})

    def _answer(self, slot: _Slot, problem: str) -> None:
        answer = " ".join(problem.split()) or "ok"
        # Full only if somebody writes there who should not: then that program waits in vain.
        with contextlib.suppress(BlockingIOError):
            os.write(slot.answer, answer.encode("utf-8", "replace")[:1024] + b"\n")


def install_program(path: str = PROGRAM_PATH, directory: str = DIRECTORY) -> None:
    """Put `crashsim-mark` on the guest's PATH."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="ascii") as file:
        file.write(PROGRAM.format(directory=directory))
    os.chmod(path, 0o755)

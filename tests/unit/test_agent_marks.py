"""`crashsim-mark` and the agent's side of it, with the shell that this host has."""

import contextlib
import json
import os
import selectors
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crashsim.machines.agent.marks import SLOTS, MarkServer, install_program

# The guest runs the program with busybox; bash agrees with it in all that it uses.
SHELL = ["busybox", "sh"] if shutil.which("busybox") else ["bash"]


class Agent:
    """A mark server with a loop that the test turns by hand."""

    def __init__(self, directory: Path) -> None:
        self.selector = selectors.DefaultSelector()
        self.host, self.port = os.pipe()
        os.set_blocking(self.host, False)
        self.program = directory / "crashsim-mark"
        self.server = MarkServer(self.selector, self.port, str(directory / "marks"))
        install_program(str(self.program), str(directory / "marks"))

    def start(self, *arguments: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen([*SHELL, str(self.program), *arguments], stderr=subprocess.PIPE)

    def turn(self) -> None:
        ready = self.selector.select(20)
        assert ready, "nobody made a mark"
        for key, _ in ready:
            key.data()

    def next_marks(self) -> list[dict[str, Any]]:
        lines = b""
        while not lines.endswith(b"\n"):
            self.turn()
            with contextlib.suppress(BlockingIOError):
                lines += os.read(self.host, 1 << 17)
        return [json.loads(line) for line in lines.splitlines()]

    def next_mark(self) -> dict[str, Any]:
        (mark,) = self.next_marks()
        return mark


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[Agent]:
    agent = Agent(tmp_path)
    agent.server.recording = True
    yield agent
    agent.server.close()
    for descriptor in (agent.host, agent.port):
        os.close(descriptor)


def finish(process: "subprocess.Popen[bytes]") -> tuple[int, bytes]:
    _, complaint = process.communicate(timeout=20)
    return process.returncode, complaint


def test_the_program_waits_for_its_acknowledgement(agent: Agent) -> None:
    process = agent.start("saved", "one  two")
    message = agent.next_mark()

    assert message == {"mark": 1, "text": "saved one  two"}
    assert process.poll() is None
    agent.server.answer(1, "")
    assert finish(process) == (0, b"")


def test_an_answer_for_another_mark_lets_nobody_go(agent: Agent) -> None:
    process = agent.start("mine")
    number = agent.next_mark()["mark"]

    agent.server.answer(number + 1, "")
    agent.server.answer(0, "")
    assert process.poll() is None
    agent.server.answer(number, "the log is full")
    assert finish(process) == (3, b"crashsim-mark: the log is full\n")


def test_nothing_is_sent_while_nothing_is_recorded(agent: Agent) -> None:
    agent.server.recording = False
    process = agent.start("lost")
    agent.turn()

    assert finish(process) == (3, b"crashsim-mark: nothing is being recorded\n")
    with pytest.raises(BlockingIOError):
        os.read(agent.host, 1)


@pytest.mark.parametrize("arguments", [(), ("",), ("a\nb",)], ids=["none", "empty", "newline"])
def test_what_is_no_line_of_text_never_leaves_the_program(
    agent: Agent, arguments: tuple[str, ...]
) -> None:
    assert finish(agent.start(*arguments))[0] == 2


def test_odd_bytes_arrive_one_character_each(agent: Agent) -> None:
    odd = b"-n \\t %s \xff\xc3\xa4 'x' \"y\" $z"
    process = agent.start(os.fsdecode(odd))
    message = agent.next_mark()
    agent.server.answer(message["mark"], "")

    assert message["text"].encode("latin-1") == odd
    assert finish(process)[0] == 0


def test_a_killed_program_takes_its_slot_with_it_and_nothing_else(agent: Agent) -> None:
    victim = agent.start("victim")
    first = agent.next_mark()["mark"]
    victim.kill()
    victim.wait()
    assert victim.stderr is not None
    victim.stderr.close()
    agent.server.answer(first, "")  # which nobody reads

    for number in range(len(SLOTS)):  # enough to come to every slot that is left
        process = agent.start(f"later {number}")
        message = agent.next_mark()
        assert message["text"] == f"later {number}"
        # Had it read the answer to the victim, it would have ended with 0.
        agent.server.answer(message["mark"], f"no {number}")
        assert finish(process) == (3, b"crashsim-mark: no %d\n" % number)


def test_a_reset_gives_back_every_slot(agent: Agent) -> None:
    for _ in range(3):
        victim = agent.start("victim")
        agent.next_mark()
        victim.kill()
        finish(victim)
    agent.server.reset()
    processes = [agent.start(f"{number}") for number in range(len(SLOTS))]
    seen: set[str] = set()
    while len(seen) < len(SLOTS):
        for mark in agent.next_marks():
            seen.add(mark["text"])
            agent.server.answer(mark["mark"], "")

    assert [finish(process)[0] for process in processes] == [0] * len(SLOTS)

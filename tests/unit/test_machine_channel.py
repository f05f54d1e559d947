"""The host's end of the agent's channel, against agents that lie, stall and hang up."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from crashsim.machines import channel as channel_module
from crashsim.machines.channel import Channel, Content
from crashsim.machines.failures import AgentError, Cause, GuestDied


class Answer(msgspec.Struct):
    value: int


class FakeAgent:
    """The other end of a channel, and a thread to make calls in."""

    def __init__(self, channel: Channel, connection: socket.socket, pool: ThreadPoolExecutor):
        self.channel = channel
        self.connection = connection
        self.lines = connection.makefile("rb")
        self.pool = pool

    def call(self, **options: Any) -> Future[Answer]:
        options.setdefault("timeout_seconds", 20)
        return self.pool.submit(lambda: self.channel.call("op", {"a": 1}, Answer, **options))

    def request(self) -> dict[str, Any]:
        message = json.loads(self.lines.readline())
        assert isinstance(message, dict)
        return message

    def send(self, message: dict[str, Any] | bytes) -> None:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.connection.sendall(line + b"\n")


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    ours, theirs = socket.socketpair()
    theirs.settimeout(20)
    channel = Channel(ours, lambda cause, what: GuestDied(cause, what, ["last line"]))
    with ThreadPoolExecutor(4) as pool, theirs:
        agent = FakeAgent(channel, theirs, pool)
        yield agent
        agent.lines.close()
        channel.close()


def test_an_answer_comes_back_to_its_own_request(agent: FakeAgent) -> None:
    first = agent.call()
    one = agent.request()
    second = agent.call()
    two = agent.request()
    agent.send({"id": two["id"], "result": {"value": 2}})
    agent.send({"id": one["id"], "result": {"value": 1}})

    assert (one["op"], one["arguments"]) == ("op", {"a": 1})
    assert (first.result(20).value, second.result(20).value) == (1, 2)


def test_a_refusal_is_an_agent_error_and_the_channel_lives(agent: FakeAgent) -> None:
    refused = agent.call()
    number = agent.request()["id"]
    agent.send({"id": number, "error": {"kind": "os", "message": "no file", "errno": "ENOENT"}})

    with pytest.raises(AgentError, match="no file") as error:
        refused.result(20)
    assert error.value.errno_name == "ENOENT"
    again = agent.call()
    agent.send({"id": agent.request()["id"], "result": {"value": 3}})
    assert again.result(20).value == 3


def test_a_mark_is_acknowledged_after_its_handler_has_returned(agent: FakeAgent) -> None:
    handled, go_on = threading.Event(), threading.Event()

    def on_mark(text: str) -> None:
        assert text == "ä\udcff"
        handled.set()
        assert go_on.wait(20)

    call = agent.call(on_mark=on_mark)
    number = agent.request()["id"]
    agent.send({"mark": 7, "text": b"\xc3\xa4\xff".decode("latin-1")})
    assert handled.wait(20)
    agent.connection.settimeout(0.0)
    with pytest.raises(BlockingIOError):
        agent.connection.recv(1)
    agent.connection.settimeout(20)
    go_on.set()

    assert agent.request() == {"ack": 7, "problem": ""}
    agent.send({"id": number, "result": {"value": 1}})
    assert call.result(20).value == 1


def test_a_mark_that_cannot_be_recorded_is_not_acknowledged(agent: FakeAgent) -> None:
    def on_mark(text: str) -> None:
        raise OSError("disk full")

    call = agent.call(on_mark=on_mark)
    agent.request()
    agent.send({"mark": 1, "text": "x"})

    assert agent.request()["problem"]
    with pytest.raises(OSError, match="disk full"):
        call.result(20)


def test_a_mark_that_nobody_records_is_not_acknowledged(agent: FakeAgent) -> None:
    agent.send({"mark": 1, "text": "x"})
    assert agent.request()["problem"]
    call = agent.call()  # without on_mark
    number = agent.request()["id"]
    agent.send({"mark": 2, "text": "x"})
    assert agent.request()["problem"]
    agent.send({"id": number, "result": {"value": 1}})
    assert call.result(20).value == 1


def test_contents_come_in_order_to_the_thread_that_asked(agent: FakeAgent) -> None:
    pieces: list[tuple[str, bool]] = []
    call = agent.call(on_content=lambda content: pieces.append((content.data, content.last)))
    number = agent.request()["id"]
    for data, last in (("QQ==", False), ("Qg==", True)):
        agent.send({"id": number, "content": {"digest": "d", "data": data, "last": last}})
    agent.send({"id": number, "result": {"value": 1}})

    assert call.result(20).value == 1
    assert pieces == [("QQ==", False), ("Qg==", True)]


def test_silence_is_the_guests_death_and_later_calls_say_so(agent: FakeAgent) -> None:
    other = agent.call()
    agent.request()
    with pytest.raises(GuestDied) as died:
        agent.call(timeout_seconds=0.05).result(20)

    assert died.value.cause is Cause.HUNG
    assert died.value.console == ("last line",)
    for later in (other, agent.call()):
        with pytest.raises(GuestDied):
            later.result(20)


def test_hanging_up_is_the_guests_death(agent: FakeAgent) -> None:
    call = agent.call()
    agent.request()
    agent.connection.shutdown(socket.SHUT_RDWR)

    with pytest.raises(GuestDied) as died:
        call.result(20)
    assert died.value.cause is Cause.GONE
    assert agent.channel.hello.is_set()  # whoever waits for a boot is woken


BAD: dict[str, Callable[[int], dict[str, Any] | bytes]] = {
    "no json": lambda number: b"{",
    "no utf-8": lambda number: b'{"text":"\xff"}',
    "no object": lambda number: b"[]",
    "an id of another type": lambda number: {"id": "x"},
    "a mark without number": lambda number: {"mark": "x"},
    "a mark that is no text": lambda number: {"mark": 1, "text": "\u1234"},
    "an answer of another type": lambda number: {"id": number, "result": {"value": "x"}},
    "an answer without value": lambda number: {"id": number, "result": {}},
    "an answer that is none": lambda number: {"id": number, "result": []},
    "contents nobody asked for": lambda number: {
        "id": number,
        "content": {"digest": "", "data": "", "last": True},
    },
    "an error without kind": lambda number: {"id": number, "error": {}},
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_what_no_agent_sends_is_the_guests_death(
    agent: FakeAgent, bad: Callable[[int], dict[str, Any] | bytes]
) -> None:
    call = agent.call(on_mark=lambda text: None)
    agent.send(bad(agent.request()["id"]))

    with pytest.raises(GuestDied) as died:
        call.result(20)
    assert died.value.cause is Cause.PROTOCOL


def test_answers_to_nobody_are_ignored(agent: FakeAgent) -> None:
    call = agent.call()
    number = agent.request()["id"]
    agent.send({"id": number + 1, "result": {"value": 9}})
    agent.send({"id": -1, "result": {"value": 9}})
    agent.send({})
    agent.send({"id": number, "result": {"value": 1}})

    assert call.result(20).value == 1


def test_a_line_without_end_is_the_guests_death(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "LINE_BYTES_MAX", 1000)
    call = agent.call()
    agent.request()
    agent.connection.sendall(b" " * 1001)

    with pytest.raises(GuestDied) as died:
        call.result(20)
    assert died.value.cause is Cause.PROTOCOL


def test_contents_without_end_are_the_guests_death(
    agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_module, "CONTENT_BYTES_MAX", 10)
    taken: list[Content] = []
    call = agent.call(on_content=taken.append)
    number = agent.request()["id"]
    for _ in range(2):
        agent.send({"id": number, "content": {"digest": "d", "data": "x" * 6, "last": False}})

    with pytest.raises(GuestDied) as died:
        call.result(20)
    assert died.value.cause is Cause.PROTOCOL
    assert len(taken) == 1

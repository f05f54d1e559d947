"""What the agent refuses, and that refusing never ends it: a service on a pair of sockets."""

import errno
import json
import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from crashsim.machines.agent import mounts, service, trees
from crashsim.machines.agent.marks import MarkServer
from crashsim.machines.agent.operations import OPERATIONS, Agent, check_arguments
from crashsim.machines.agent.wire import LINE_BYTES_MAX, Hangup, Refused


class Host:
    """The host's side of a service that runs in a thread of this process."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.lines = connection.makefile("rb")

    def ask(self, message: Any) -> dict[str, Any]:
        self.send(json.dumps(message).encode())
        return self.answer()

    def send(self, line: bytes) -> None:
        self.connection.sendall(line + b"\n")

    def answer(self) -> dict[str, Any]:
        answer = json.loads(self.lines.readline())
        assert isinstance(answer, dict)
        return answer


class QuietLog:
    def forward(self) -> None:
        pass

    def read(self) -> str:
        return ""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    def marks(selector: Any, port: int) -> MarkServer:
        return MarkServer(selector, port, str(tmp_path / "marks"))

    monkeypatch.setattr(service, "MarkServer", marks)
    monkeypatch.setattr(service, "KernelLog", QuietLog)
    monkeypatch.setattr(service, "watch_children", lambda: os.pipe()[0])
    ours, theirs = socket.socketpair()
    ours.settimeout(20)
    served = service.Service(theirs.fileno())

    def loop() -> None:
        try:
            served.loop()
        except Hangup:
            return

    with ThreadPoolExecutor(1) as threads, ours, theirs:
        ending = threads.submit(loop)
        host = Host(ours)
        yield host
        ours.shutdown(socket.SHUT_RDWR)
        ending.result(20)  # raises what ended the service
        host.lines.close()


RUN = {
    "argv": ["true"],
    "cwd": "/",
    "environment": {},
    "stdin": "",
    "timeout_seconds": 20,
    "output_limit_bytes": 100,
    "marks": False,
}


@pytest.mark.parametrize(
    "message",
    [
        {"id": 1, "op": "no-such-operation", "arguments": {}},
        {"id": 1, "op": "__class__", "arguments": {}},
        {"id": 1, "op": 7, "arguments": {}},
        {"id": "x", "op": "hello", "arguments": {}},
        {"op": "hello", "arguments": {}},
        {"id": 1, "op": "hello"},
        {"id": 1, "op": "hello", "arguments": []},
        {"id": 1, "op": "hello", "arguments": {"more": 1}},
        {"id": 1, "op": "clock", "arguments": {"seconds": "now"}},
        {
            "id": 1,
            "op": "mount",
            "arguments": {"slot": True, "fstype": "x", "options": "", "at": ""},
        },
        {"id": 1, "op": "mount", "arguments": {"slot": 99, "fstype": "x", "options": "", "at": ""}},
        {"id": 1, "op": "run", "arguments": {**RUN, "argv": []}},
        {"id": 1, "op": "run", "arguments": {**RUN, "argv": ["true", 1]}},
        {"id": 1, "op": "run", "arguments": {**RUN, "argv": ["a\0b"]}},
        {"id": 1, "op": "run", "arguments": {**RUN, "environment": {"A": 1}}},
        {"id": 1, "op": "run", "arguments": {**RUN, "stdin": "*"}},
        {"id": 1, "op": "disturb", "arguments": {"specification": {"kind": "no-such"}}},
        {"ack": "x"},
        [],
        "text",
        None,
    ],
    ids=str,
)
def test_a_bad_request_is_refused_and_the_next_one_served(host: Host, message: Any) -> None:
    assert host.ask(message)["error"]["kind"] == "refused"
    assert host.ask({"id": 2, "op": "run", "arguments": RUN})["result"]["returncode"] == 0


@pytest.mark.parametrize("line", [b"", b"\xff\xfe", b"{" * 10_000, b'{"id":1'])
def test_a_line_that_is_no_json_is_refused(host: Host, line: bytes) -> None:
    host.send(line)
    assert host.answer()["error"]["kind"] == "refused"
    assert host.ask({"id": 2, "op": "run", "arguments": RUN})["id"] == 2


def test_a_line_that_is_too_long_is_refused(host: Host) -> None:
    host.send(b"x" * (LINE_BYTES_MAX + 1))

    assert host.answer()["error"]["message"] == "the line is too long"
    assert host.ask({"id": 2, "op": "run", "arguments": RUN})["id"] == 2


def test_an_error_of_the_system_has_its_name(host: Host, tmp_path: Path) -> None:
    arguments = {
        "path": str(tmp_path / "no" / "file"),
        "content": "",
        "mode": 0o644,
        "append": False,
    }
    answer = host.ask({"id": 5, "op": "write_file", "arguments": arguments})

    assert (answer["id"], answer["error"]["kind"], answer["error"]["errno"]) == (5, "os", "ENOENT")


def test_a_root_that_cannot_be_listed_is_a_failed_recovery_and_unmounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_tree(*_: object) -> None:
        raise OSError(errno.EUCLEAN, "Structure needs cleaning")

    calls: list[str] = []
    monkeypatch.setattr(mounts, "mount", lambda *_: calls.append("mount"))
    monkeypatch.setattr(mounts, "unmount", lambda *_: calls.append("unmount"))
    monkeypatch.setattr(trees, "read_tree", read_tree)
    agent = Agent(QuietLog(), lambda *_: None, set())  # type: ignore[arg-type]
    options = {"exclude": [], "collect": [""], "forget": False}

    answer = OPERATIONS["recover"].perform(
        agent, {"slot": 0, "fstype": "xfs", "options": "", "at": "", "then": [], **options}
    )

    assert (answer["rows"], answer["errno"]) == (None, errno.EUCLEAN)
    assert calls == ["mount", "unmount"]


def test_what_is_mounted_inside_fails_with_all_of_it_and_gets_no_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[object, ...]] = []

    def mount(*arguments: object) -> None:
        calls.append(arguments)
        if arguments[0] == "/dev/vdc":
            raise OSError(errno.EUCLEAN, "Structure needs cleaning")

    monkeypatch.setattr(mounts, "mount", mount)
    monkeypatch.setattr(mounts, "unmount", lambda *arguments: calls.append(arguments))
    agent = Agent(QuietLog(), lambda *_: None, set())  # type: ignore[arg-type]
    inner = {"slot": 1, "fstype": "xfs", "options": "", "at": "/mnt/0/objects"}
    options = {"exclude": [], "collect": [""], "forget": False}

    answer = OPERATIONS["recover"].perform(
        agent, {"slot": 0, "fstype": "xfs", "options": "", "at": "", "then": [inner], **options}
    )

    assert (answer["rows"], answer["errno"]) == (None, errno.EUCLEAN)
    assert calls == [
        ("/dev/vdb", "/mnt/0", "xfs", "", True),
        ("/dev/vdc", "/mnt/0/objects", "xfs", "", False),
        ("/mnt/0",),
    ]


def test_a_wrong_type_is_refused_for_every_argument_of_every_operation() -> None:
    samples: dict[type, Any] = {str: "", int: 1, list: [], dict: {}, bool: True, float: 1.0}
    for operation in OPERATIONS.values():
        kinds = {
            name: kind if isinstance(kind, tuple) else (kind,)
            for name, kind in operation.arguments.items()
        }
        good = {name: samples[kind[0]] for name, kind in kinds.items()}
        assert check_arguments(good, operation.arguments) == good
        for name, kind in kinds.items():
            for other in set(samples) - set(kind):
                with pytest.raises(Refused):
                    check_arguments({**good, name: samples[other]}, operation.arguments)
            with pytest.raises(Refused):
                check_arguments({k: v for k, v in good.items() if k != name}, operation.arguments)

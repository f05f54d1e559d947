"""The agent's loop: requests from the host, marks from programs, and the command that is running.

One thread and one selector. Operations run to their end in it, except commands: these go on while
the loop serves other requests, so that the host can start disturbances and programs can make
marks.
"""

import contextlib
import ctypes
import errno
import gc
import os
import selectors
import signal
import time
from collections.abc import Callable
from typing import Any

from . import disturb, processes, shell
from .kernel import KernelLog
from .marks import MarkServer, install_program
from .operations import OPERATIONS, Agent, check_arguments, strings
from .trees import ContentChanged
from .wire import (
    Hangup,
    LineReader,
    Refused,
    decode_content,
    encode_content,
    from_wire,
    parse,
    send,
)

PR_SET_CHILD_SUBREAPER = 36  # linux/prctl.h

RUN_ARGUMENTS: dict[str, type | tuple[type, ...]] = {
    "argv": list,
    "cwd": str,
    "environment": dict,
    "stdin": str,
    "timeout_seconds": (int, float),
    "output_limit_bytes": int,
    "marks": bool,
}


SHELL_ARGUMENTS = {"cwd": str, "rows": int, "columns": int}


class Service:
    """Serves one host on one descriptor."""

    def __init__(self, port: int) -> None:
        """Talk to the host on `port`."""
        self._port = port
        self._reader = LineReader(port)
        self._selector = selectors.DefaultSelector()
        self._selector.register(port, selectors.EVENT_READ, self._read_requests)
        self._marks = MarkServer(self._selector, port)
        self._child_ends = watch_children()
        self._selector.register(self._child_ends, selectors.EVENT_READ, self._reap)
        self._agent = Agent(KernelLog(), self._emit, set())
        self._command: processes.Command | None = None
        self._command_request = 0
        self._request = 0

    def loop(self) -> None:
        """Serve until the host hangs up (Hangup)."""
        while True:
            timeout = None
            if self._command is not None:
                timeout = max(0.0, self._command.deadline - time.monotonic())
            for key, _ in self._selector.select(timeout):
                # A handler that was called before may have closed what this event is about.
                if self._selector.get_map().get(key.fileobj) is key:
                    handler: Callable[[], None] = key.data
                    handler()
            if self._command is not None and time.monotonic() >= self._command.deadline:
                self._end_command(timed_out=True)

    def _read_requests(self) -> None:
        for line in self._reader.read():
            self._request = 0
            try:
                if line is None:
                    raise Refused("the line is too long")
                self._handle(parse(line))
            except Refused as error:
                self._fail("refused", str(error))
            except OSError as error:
                name = errno.errorcode.get(error.errno or 0, str(error.errno))
                self._fail("os", str(error), name)
            except (ContentChanged, processes.CannotKill, disturb.DisturbanceFailed) as error:
                self._fail("failed", str(error))

    def _handle(self, message: dict[str, Any]) -> None:
        if "ack" in message:
            number, problem = message["ack"], message.get("problem", "")
            if not isinstance(number, int) or not isinstance(problem, str):
                raise Refused("not an acknowledgement")
            self._marks.answer(number, problem)
            return
        request, name = message.get("id"), message.get("op")
        if not isinstance(request, int) or not isinstance(name, str):
            raise Refused("a request has a number `id` and a text `op`")
        self._request = request
        arguments = message.get("arguments")
        if name == "run":
            self._run(check_arguments(arguments, RUN_ARGUMENTS))
        elif name == "shell":
            self._shell(check_arguments(arguments, SHELL_ARGUMENTS))
        elif name in OPERATIONS:
            operation = OPERATIONS[name]
            checked = check_arguments(arguments, operation.arguments)
            self._reply(operation.perform(self._agent, checked))
        else:
            raise Refused(f"unknown operation {name!r}")

    def _run(self, arguments: Any) -> None:
        if self._command is not None:
            raise Refused("a command is running: one at a time")
        argv = strings(arguments["argv"])
        if not argv:
            raise Refused("an empty command")
        if arguments["marks"]:
            self._marks.reset()
        environment = arguments["environment"]
        names, values = strings(list(environment)), strings(list(environment.values()))
        command = processes.start(
            argv,
            from_wire(arguments["cwd"]),
            dict(zip(names, values, strict=True)),
            decode_content(arguments["stdin"]),
            arguments["timeout_seconds"],
            arguments["output_limit_bytes"],
        )
        self._command, self._command_request = command, self._request
        self._marks.recording = arguments["marks"]
        self._selector.register(
            command.process_descriptor, selectors.EVENT_READ, lambda: self._end_command(False)
        )
        for output in command.outputs:
            self._selector.register(
                output.descriptor, selectors.EVENT_READ, lambda o=output: self._drain(o)
            )

    def _shell(self, arguments: Any) -> None:
        rows, columns = arguments["rows"], arguments["columns"]
        if not (0 < rows < 1 << 16 and 0 < columns < 1 << 16):
            raise Refused("not the size of a terminal")
        shell.start(from_wire(arguments["cwd"]), rows, columns)
        self._reply({})

    def _drain(self, output: processes.Output) -> None:
        output.drain()
        if output.ended:
            self._selector.unregister(output.descriptor)

    def _end_command(self, timed_out: bool) -> None:
        command, self._command = self._command, None
        if command is None:
            return  # both ended and timed out in one turn of the loop
        self._request = self._command_request
        self._selector.unregister(command.process_descriptor)
        for output in command.outputs:
            if not output.ended:
                self._selector.unregister(output.descriptor)
        try:
            if timed_out:
                processes.kill_descendants(disturb.owns)
        except processes.CannotKill as error:
            self._marks.recording = False
            self._fail("failed", str(error))
            return
        outcome = command.finish(timed_out)
        self._marks.recording = False
        for name in ("stdout", "stderr"):
            outcome[name] = encode_content(outcome[name])
        self._reply(outcome)

    def _reap(self) -> None:
        """A zombie would still look alive to whoever waits for it to go, so none is kept."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._child_ends, 4096):
                pass
        processes.reap_orphans(self._is_awaited)

    def _is_awaited(self, process: int) -> bool:
        command = self._command
        return disturb.owns(process) or (command is not None and process == command.process.pid)

    def _emit(self, digest: str, piece: bytes, last: bool) -> None:
        content = {"digest": digest, "data": encode_content(piece), "last": last}
        send(self._port, {"id": self._request, "content": content})

    def _reply(self, result: dict[str, Any]) -> None:
        send(self._port, {"id": self._request, "result": result})

    def _fail(self, kind: str, message: str, name: str = "") -> None:
        error = {"kind": kind, "message": message[:4096], "errno": name}
        send(self._port, {"id": self._request, "error": error})


def watch_children() -> int:
    """A descriptor that can be read whenever a child has ended."""
    readable, writable = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    # Without a handler of its own SIGCHLD is ignored, and wakes nobody.
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    return readable


def become_subreaper() -> None:
    """Inherit every orphan among the descendants of this process, instead of the first process."""
    library = ctypes.CDLL(None, use_errno=True)
    if library.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a child subreaper")


def serve(port_path: str) -> None:
    """Be the agent. Returns when the host hangs up; raises OSError when there is no port."""
    become_subreaper()
    install_program()
    port = os.open(port_path, os.O_RDWR | os.O_CLOEXEC)
    service = Service(port)
    send(port, {"hello": 1})
    # Nothing here makes reference cycles in number, and a collection in the middle of a tree costs
    # more than the tree's smallest file.
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        service.loop()
    except Hangup:
        return

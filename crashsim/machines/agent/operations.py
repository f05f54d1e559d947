"""What the host may ask for: each operation's arguments, and the function that does it."""

import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import disturb, kernel, mounts, trees
from .wire import Refused, decode_content, from_wire

Arguments = Mapping[str, Any]


@dataclass
class Agent:
    """The agent's memory between two requests.

    :ivar sent: digests of the contents that the host has.
    :ivar emit: sends a piece of content to the host.
    """

    log: kernel.KernelLog
    emit: trees.Emit
    sent: set[str]


@dataclass(frozen=True)
class Operation:
    """An operation and the types of its arguments: all are needed, no others are allowed."""

    perform: Callable[[Agent, Arguments], dict[str, Any]]
    arguments: Mapping[str, type | tuple[type, ...]]


def check_arguments(arguments: Any, expected: Mapping[str, type | tuple[type, ...]]) -> Arguments:
    """The arguments, if they are what the operation takes; Refused otherwise."""
    if not isinstance(arguments, dict) or arguments.keys() != expected.keys():
        raise Refused(f"the arguments must be {', '.join(expected) or 'none'}")
    for name, kind in expected.items():
        # bool is a subclass of int, and never what is meant by one.
        if not isinstance(arguments[name], kind) or (
            isinstance(arguments[name], bool) and kind is not bool
        ):
            raise Refused(f"argument {name} has a wrong type")
    return arguments


def strings(values: list[Any]) -> list[str]:
    """A list of OS strings from how they travel."""
    if not all(isinstance(value, str) for value in values):
        raise Refused("a list of strings has something else in it")
    return [from_wire(value) for value in values]


def _hello(agent: Agent, arguments: Arguments) -> dict[str, Any]:
    uname = os.uname()
    return {"kernel": uname.release, "tainted": kernel.is_tainted()}


def _clock(agent: Agent, arguments: Arguments) -> dict[str, Any]:
    kernel.set_clock(arguments["seconds"])
    return {}


def _write_file(agent: Agent, arguments: Arguments) -> dict[str, Any]:
    mode = arguments["mode"] & 0o7777
    flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
    flags |= os.O_APPEND if arguments["append"] else os.O_TRUNC
    view = memoryview(decode_content(arguments["content"]))
    descriptor = os.open(from_wire(arguments["path"]), flags, mode)
    try:
        # Only where needed: files of /proc and /sys do not let their mode be set.
        if stat.S_IMODE(os.fstat(descriptor).st_mode) != mode:
            os.fchmod(descriptor, mode)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
    return {}


def _mount(agent: Agent, arguments: Arguments) -> dict[str, Any]:
    slot, at = arguments["slot"], from_wire(arguments["at"])
    mounts.mount(
        mounts.device_path(slot),
        at or mounts.mount_point(slot),
        from_wire(arguments["fstype"]),
        from_wire(arguments["options"]),
        not at,
    )
    return {}


def _unmount(agent: Agent, arguments: Arguments) -> dict[str, Any]:
    mounts.unmount(mounts.mount_point(arguments["slot"]))
    return {}


def _tree(agent: Agent, arguments: Arguments) -> dict[str, Any]:
    return {"rows": _rows(agent, os.fsencode(from_wire(arguments["root"])), arguments)}


def _rows(agent: Agent, root: bytes, arguments: Arguments) -> list[Any]:
    if arguments["forget"]:
        agent.sent.clear()
    exclude, collect = (
        tuple(os.fsencode(text) for text in strings(arguments[name]))
        for name in ("exclude", "collect")
    )
    rows = trees.read_tree(root, exclude, collect, agent.sent, agent.emit)
    return [(path.decode("latin-1"), *rest) for path, *rest in rows]


def _recover(agent: Agent, arguments: Arguments) -> dict[str, Any]:
    """Mount and read, in one round trip: two of them would be a tenth of a check."""
    agent.log.forward()
    rows = None
    failure = 0
    inner = [check_arguments(each, _MOUNT_ARGUMENTS) for each in arguments["then"]]
    target = mounts.mount_point(arguments["slot"])
    started = time.monotonic()
    try:
        _mount(agent, arguments)
    except OSError as error:
        failure = error.errno or 0
    else:
        try:
            for each in inner:
                _mount(agent, each)
        except OSError as error:
            failure = error.errno or 0
            mounts.unmount(target)
    mounted = time.monotonic()
    if not failure:
        try:
            rows = _rows(agent, os.fsencode(target), arguments)
        except OSError as error:
            # The root directory itself cannot be listed: as good as not mounted.
            failure = error.errno or 0
            mounts.unmount(target)
    ended = time.monotonic()
    return {
        "rows": rows,
        "errno": failure,
        "kernel_log": agent.log.read(),
        "tainted": kernel.is_tainted(),
        "seconds": {"mount": mounted - started, "tree": ended - mounted},
    }


def _disturb(agent: Agent, arguments: Arguments) -> dict[str, Any]:
    try:
        return {"number": disturb.start(arguments["specification"])}
    except (KeyError, ValueError, TypeError) as error:
        raise Refused(f"not a disturbance: {error}") from error


def _calm(agent: Agent, arguments: Arguments) -> dict[str, Any]:
    disturb.stop_all()
    return {}


_TREE_ARGUMENTS = {"exclude": list, "collect": list, "forget": bool}
_MOUNT_ARGUMENTS = {"slot": int, "fstype": str, "options": str, "at": str}

OPERATIONS: Mapping[str, Operation] = {
    "hello": Operation(_hello, {}),
    "clock": Operation(_clock, {"seconds": (int, float)}),
    "write_file": Operation(
        _write_file, {"path": str, "content": str, "mode": int, "append": bool}
    ),
    "mount": Operation(_mount, _MOUNT_ARGUMENTS),
    "unmount": Operation(_unmount, {"slot": int}),
    "tree": Operation(_tree, {"root": str, **_TREE_ARGUMENTS}),
    "recover": Operation(_recover, {**_MOUNT_ARGUMENTS, "then": list, **_TREE_ARGUMENTS}),
    "disturb": Operation(_disturb, {"specification": dict}),
    "calm": Operation(_calm, {}),
}
"""The operations that end before the next one begins. `run` and `shell` are the loop's."""

"""One guest in a Vagrant VM: its disks, its room, and the host's orders about both.

    sudo python3 -m crashsim.machines.vagrant_side.main PREFIX

`PREFIX`agent, `PREFIX`disk0 and so on are unix sockets that sshd forwards to the host. Orders come
as lines of JSON by standard input (see `agent.wire`), answers go to standard output. When standard
input ends, all of it is taken down.
"""

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from typing import Any

from crashsim.faults.dm.session import DeviceMapper
from crashsim.machines.agent.wire import (
    Hangup,
    LineReader,
    Refused,
    encode_content,
    from_wire,
    parse,
    send,
)

from . import room
from .disks import Slot
from .nbd_client import NbdDevice

DISKS = 2
_MODULES = ("dm-mod", "dm-flakey", "dm-log-writes", "dm-snapshot", "overlay", "loop")
_UDEV = ("systemd-udevd-control.socket", "systemd-udevd-kernel.socket", "systemd-udevd.service")


class VmGuest:
    """A guest, from the side of the VM."""

    def __init__(self, prefix: str, stack: contextlib.ExitStack) -> None:
        """Connect everything and start the agent; `stack` takes it down."""
        self._stack = stack
        self._recorded: set[int] = set()
        mapper = stack.enter_context(DeviceMapper())
        self._slots: list[Slot] = []
        for number in range(DISKS):
            nbd = NbdDevice(f"{prefix}disk{number}")
            stack.callback(nbd.close)
            self._slots.append(Slot(number, mapper, stack, nbd))
        devices = [slot.path for slot in self._slots]
        with socket.socket(socket.AF_UNIX) as agent:
            agent.connect(f"{prefix}agent")
            self._room = subprocess.Popen(
                room.command(agent.fileno(), devices),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(agent.fileno(),),
                start_new_session=True,
            )
        stack.callback(self.leave_room)

    def leave_room(self) -> None:
        """End the agent and all that it started; what it has mounted goes with its namespace.

        What the filesystems still want to write has nowhere to go. Idempotent.
        """
        for slot in self._slots:
            slot.break_off()
        self._room.kill()
        self._room.wait()

    def record(self, slot: int) -> dict[str, Any]:
        """Record a disk from now on; it is blank then."""
        self._slots[slot].record()
        self._recorded.add(slot)
        # Before the devices that the disk lies on are removed, whatever happens.
        self._stack.callback(self._power_off, slot)
        return {}

    def mark(self, slot: int, text: str) -> dict[str, Any]:
        """Put a mark into the log."""
        self._slots[slot].recorder.mark(text)
        return {}

    def count(self, slot: int) -> dict[str, Any]:
        """How many entries the log has."""
        return {"count": self._slots[slot].recorder.count()}

    def power_off(self, slot: int) -> dict[str, Any]:
        """Cut a disk that is recorded, end the guest, end the log."""
        self._power_off(slot)
        return {"length_bytes": self._slots[slot].recorder.finish()}

    def _power_off(self, slot: int) -> None:
        if slot in self._recorded:
            self._recorded.remove(slot)
            self._slots[slot].cut()
            self.leave_room()
            self._slots[slot].let_go()

    def log(self, slot: int, length_bytes: int) -> dict[str, Any]:
        """Send the log, piece by piece."""
        return {"pieces": self._slots[slot].recorder.pieces(length_bytes)}


def _text(message: Mapping[str, Any], name: str) -> str:
    value = message.get(name)
    if not isinstance(value, str):
        raise Refused(f"{name} must be a text")
    return from_wire(value)


def _number(message: Mapping[str, Any], name: str) -> int:
    value = message.get(name)
    if not isinstance(value, int) or value < 0:
        raise Refused(f"{name} must be a number")
    return value


def _slot(message: Mapping[str, Any]) -> int:
    slot = _number(message, "slot")
    if slot >= DISKS:
        raise Refused(f"no disk has the number {slot}")
    return slot


ORDERS: dict[str, Callable[[VmGuest, Mapping[str, Any]], dict[str, Any]]] = {
    "hello": lambda guest, message: {},
    "record": lambda guest, message: guest.record(_slot(message)),
    "mark": lambda guest, message: guest.mark(_slot(message), _text(message, "text")),
    "count": lambda guest, message: guest.count(_slot(message)),
    "power_off": lambda guest, message: guest.power_off(_slot(message)),
    "log": lambda guest, message: guest.log(_slot(message), _number(message, "length_bytes")),
}


def serve(guest: VmGuest, source: int, target: int) -> None:
    """Take orders until the host hangs up."""
    reader = LineReader(source)
    while True:
        try:
            lines = reader.read()
        except Hangup:
            return
        for line in lines:
            request = 0
            try:
                if line is None:
                    raise Refused("the line is too long")
                message = parse(line)
                request = int(message["id"])
                arguments = message.get("arguments")
                order = ORDERS.get(str(message.get("op")))
                if order is None or not isinstance(arguments, dict):
                    raise Refused("unknown order")
                result = order(guest, arguments)
                for piece in result.pop("pieces", ()):
                    content = {"digest": "log", "data": encode_content(piece), "last": False}
                    send(target, {"id": request, "content": content})
                send(target, {"id": request, "result": result})
            except Exception as error:  # noqa: BLE001 - whatever it is, the host has to be told
                told = {"kind": type(error).__name__, "message": str(error)[:4096]}
                send(target, {"id": request, "error": told})


def main() -> None:
    """Prepare this VM's kernel, and be one guest."""
    subprocess.run(["modprobe", "--all", *_MODULES], check=True)
    # It would open our disks whenever something has changed on them, and so keep what the kernel
    # has cached of a crash state alive into the next one.
    stop = ["systemctl", "--quiet", "stop", *_UDEV]
    subprocess.run(stop, check=False, stderr=subprocess.DEVNULL)
    orders, answers = os.dup(0), os.dup(1)
    with open(os.devnull, "r+b") as nothing:
        os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)  # what programs print does not belong between the answers
    with contextlib.ExitStack() as stack:
        guest = VmGuest(sys.argv[1], stack)
        serve(guest, orders, answers)


if __name__ == "__main__":
    main()

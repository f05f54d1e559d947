"""One device-mapper device, from its creation to its removal."""

import contextlib
import select
import time
from collections.abc import Callable, Iterator
from enum import Enum
from pathlib import Path

from . import nodes, sweeping
from .abi import TargetRow
from .control import Control, DeviceInfo
from .errors import CommandFailed, DeviceInUse, EventTimeout, NodeMissing, TargetMissing
from .tables import Table, rows_of
from .uevents import Uevents

NODE_SECONDS = 30.0
REMOVAL_SECONDS = 10.0


class Suspension(Enum):
    """What happens before requests are held back.

    A filesystem that is mounted from the device is frozen, which makes it consistent on disk; a
    power cut does no such thing. Requests that are under way are waited for, or (NO_FLUSH) those
    that a target has queued are pushed back and go through the next table.
    """

    FREEZE = "freeze the filesystem, wait for requests"
    FLUSH = "wait for requests"
    NO_FLUSH = "push requests back"


class Device:
    """A device. `session.DeviceMapper.device` makes one and removes it.

    :ivar path: its node in /dev.
    """

    def __init__(
        self, control: Control, uevents: Uevents, tell: Callable[[bool], None], name: str, uuid: str
    ) -> None:
        """Of a name and a uuid that are free; `tell` is told of suspensions (`Guardian.tell`)."""
        self.name = name
        self.path = ""
        self._control = control
        self._uevents = uevents
        self._tell = tell
        self._uuid = uuid
        self._number = (0, 0)

    @property
    def info(self) -> DeviceInfo:
        """What the kernel says of it."""
        return self._control.status(uuid=self._uuid)

    @property
    def number(self) -> str:
        """`major:minor`, as tables take it: it needs no node."""
        return "{}:{}".format(*self._number)

    def create(self, table: Table) -> None:
        """Create it, load its table, start it, and wait for its node.

        Raises BadTable, TargetMissing, CommandFailed, NodeMissing; `remove` is needed in any case.
        """
        rows = rows_of(table)
        info = self._control.create(self.name, self._uuid)
        self._number = info.major, info.minor
        self._load(rows)
        self._control.resume(self._uuid)
        self.path = self._wait_for_node()

    def load(self, table: Table) -> None:
        """Put a table into the inactive slot: the next resume makes it live."""
        self._load(rows_of(table))

    def clear(self) -> None:
        """Throw the inactive table away, if there is one."""
        self._control.clear(self._uuid)

    def suspend(self, how: Suspension = Suspension.FREEZE) -> None:
        """Hold back all requests until `resume`. Whoever makes one waits, and cannot be killed."""
        self._tell(True)
        flush, freeze = how is not Suspension.NO_FLUSH, how is Suspension.FREEZE
        try:
            self._control.suspend(self._uuid, flush=flush, freeze=freeze)
        except CommandFailed:
            self._tell(False)
            raise

    def resume(self) -> None:
        """Make the inactive table live, if there is one, and let requests through.

        Where the kernel refuses the table only now (CommandFailed: it is larger than what lies
        below, say), the device goes on with the old one.
        """
        try:
            self._control.resume(self._uuid)
        except CommandFailed:
            self._resume_as_it_was()
            raise
        self._tell(False)

    @contextlib.contextmanager
    def suspended(self, how: Suspension = Suspension.FREEZE) -> Iterator[None]:
        """Requests are held back while the context lasts; a table loaded in it is live after it.

        When it is left by an exception, that table is thrown away.
        """
        self.suspend(how)
        try:
            yield
        except BaseException:
            self._resume_as_it_was()
            raise
        self.resume()

    def reconfigure(self, table: Table, how: Suspension = Suspension.FLUSH) -> None:
        """Replace the live table, also under load. When that fails the old one stays."""
        # Before the suspension: to build a table may take memory, and so writing to this device.
        self.load(table)
        try:
            with self.suspended(how):
                pass
        except CommandFailed:
            with sweeping.may_be_gone():
                self.clear()
            raise

    def message(self, text: str, sector: int = 0) -> str:
        """Send a message to the target at a sector; its answer, mostly empty."""
        return self._control.message(self._uuid, sector, text)

    def status(self) -> list[TargetRow]:
        """Each row of the live table, with the target's status for its parameters."""
        return self._control.rows(self._uuid, arguments=False)

    def table(self) -> list[TargetRow]:
        """Each row of the live table, as the kernel has it."""
        return self._control.rows(self._uuid, arguments=True)

    def wait_for_event(self, after: int, timeout_seconds: float) -> int:
        """Wait for an event later than number `after` (`info.event_number`); the latest's number.

        By poll(2) on the control node and not by DM_DEV_WAIT, which has no end of its own. Raises
        EventTimeout, and CommandFailed (ENXIO) when the device is removed meanwhile.
        """
        deadline = time.monotonic() + timeout_seconds
        # Another open of the control node: what has been seen is kept for each.
        with Control() as control:
            poll = select.poll()
            poll.register(control.descriptor, select.POLLIN)
            while True:
                control.arm_poll()
                latest = control.status(uuid=self._uuid).event_number
                if latest > after:
                    return latest
                left = deadline - time.monotonic()
                if left <= 0 or not poll.poll(left * 1000):
                    raise EventTimeout(
                        f"device {self.name} has had no event after number {after} in "
                        f"{timeout_seconds:.0f} s"
                    )

    def remove(self) -> None:
        """Remove it and wait until it is gone. Idempotent; also for one that was never created.

        Raises DeviceInUse when it stays open: then the kernel removes it at the last close.
        """
        if self._is_suspended():
            self._resume_as_it_was()
        with sweeping.may_be_gone():
            self._control.remove(self._uuid)
        if not self._uevents.wait_until(self._is_gone, REMOVAL_SECONDS):
            raise DeviceInUse(
                f"device {self.name} ({self.path}) is still open: {self._users()}; the kernel "
                "removes it when that ends"
            )
        nodes.remove_own_node(self.name, *self._number)

    def _resume_as_it_was(self) -> None:
        sweeping.resume_as_it_was(self._control, self._uuid)
        self._tell(False)

    def _load(self, rows: list[TargetRow]) -> None:
        try:
            self._control.load(self._uuid, rows)
        except CommandFailed as error:
            # The kernel has tried to load the modules by now.
            missing = {row.kind for row in rows} - self._control.versions().keys()
            if missing:
                raise TargetMissing(
                    f"this kernel has no device-mapper target {', '.join(sorted(missing))}: load "
                    "its module, or take a kernel that has it"
                ) from error
            raise

    def _wait_for_node(self) -> str:
        path = nodes.kernel_node(self._number[1])
        if self._uevents.wait_until(lambda: self._node_is_there(path), NODE_SECONDS):
            return path if nodes.dev_is_devtmpfs() else nodes.make_node(self.name, *self._number)
        raise NodeMissing(f"no node {path} for device {self.name} in {NODE_SECONDS:.0f} s")

    def _node_is_there(self, path: str) -> bool:
        if nodes.dev_is_devtmpfs():
            return nodes.is_node(path, *self._number)
        return nodes.exists(*self._number, self._uuid)

    def _is_suspended(self) -> bool:
        with sweeping.may_be_gone():
            info = self.info
            return info.suspended and info.has_table
        return False

    def _is_gone(self) -> bool:
        return not nodes.exists(*self._number, self._uuid) and self._is_unknown()

    def _is_unknown(self) -> bool:
        with sweeping.may_be_gone():
            return not self.info
        return True

    def _users(self) -> str:
        holders = Path(f"/sys/dev/block/{self.number}/holders")
        users = [f"device {name.name}" for name in holders.iterdir()] if holders.is_dir() else []
        for line in Path("/proc/self/mountinfo").read_text("utf-8", "replace").splitlines():
            fields = line.split()
            if fields[2] == self.number:
                users.append(f"mounted at {fields[4]}")
        return ", ".join(users) or "by a process"

# ruff: noqa: D102 - the methods are the simulated machine's, documented there.
"""A simulated machine one of whose system calls fails, once or from then on."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from crashsim.faults.call_errors import ERRORS
from crashsim.model.machine import failure
from crashsim.model.operations import Scope
from crashsim.model.simulated import Bytes, Simulated

SHORT_WRITE = 0
"""In place of an errno: the call does half of what it could, and no error is returned."""


class CallMade(NamedTuple):
    """A system call: its name in the port, and the path that it was for."""

    call: str
    path: str


@dataclass(frozen=True, slots=True)
class CallFault:
    """What fails.

    :ivar number: which call since the machine was armed, from 0.
    :ivar error: an errno, or SHORT_WRITE.
    :ivar lasting: so does every later call that can return this error (a disk that stays full, a
        filesystem that has become read-only); calls that can be short all are.
    """

    number: int
    error: int
    lasting: bool = False


@dataclass
class FailingMachine(Simulated):
    """See the module.

    :ivar calls: what was called since the machine was armed, failed calls too.
    :ivar failed: those that the fault hit, in order.
    """

    calls: list[CallMade] = field(init=False, default_factory=list)
    failed: list[CallMade] = field(init=False, default_factory=list)
    _fault: CallFault | None = field(init=False, default=None)

    def arm(self, fault: CallFault | None) -> None:
        """Count the calls from here on; None: with no fault."""
        self._fault = fault
        self.calls, self.failed = [], []

    def _strikes(self, call: str, path: str) -> bool:
        number = len(self.calls)
        made = CallMade(call, path)
        self.calls.append(made)
        fault = self._fault
        if fault is None or number < fault.number:
            return False
        if number > fault.number and not (fault.lasting and fault.error in ERRORS[call]):
            return False
        self.failed.append(made)
        return True

    def _reach(self, call: str, path: str) -> None:
        """Raise the fault's error, if it is this call's turn."""
        if self._strikes(call, path) and self._fault is not None:
            raise failure(self._fault.error, path)

    def _reach_short(self, call: str, descriptor: int, count: int) -> int:
        """The same for a call that may be short: how much it is to do of `count`."""
        path = self._file(descriptor).path
        if not self._strikes(call, path) or self._fault is None:
            return count
        if self._fault.error != SHORT_WRITE:
            raise failure(self._fault.error, path)
        return max(1, count // 2) if count else 0

    def _reach_open(self, call: str, descriptor: int) -> None:
        self._reach(call, self._file(descriptor).path)

    def _reach_sync(self, call: str, descriptor: int, scope: Scope) -> None:
        path = self._file(descriptor).path
        if self._strikes(call, path) and self._fault is not None:
            self.fail_sync(descriptor, scope)
            raise failure(self._fault.error, path)

    def open(self, path: str, flags: int, mode: int = 0o666) -> int:
        self._reach("open", path)
        return super().open(path, flags, mode)

    def close(self, descriptor: int) -> None:
        # "Linux always releases the descriptor early in the close operation" (close(2)).
        path = self._file(descriptor).path
        super().close(descriptor)
        self._reach("close", path)

    def read(self, descriptor: int, count: int) -> bytes:
        return super().read(descriptor, self._reach_short("read", descriptor, count))

    def pread(self, descriptor: int, count: int, offset: int) -> bytes:
        return super().pread(descriptor, self._reach_short("pread", descriptor, count), offset)

    def write(self, descriptor: int, data: Bytes) -> int:
        taken = self._reach_short("write", descriptor, len(data))
        return super().write(descriptor, bytes(data)[:taken])

    def truncate(self, descriptor: int, length: int) -> None:
        self._reach_open("truncate", descriptor)
        super().truncate(descriptor, length)

    def map(self, descriptor: int, length: int) -> Bytes:
        self._reach_open("map", descriptor)
        return super().map(descriptor, length)

    def stat(self, path: str) -> os.stat_result:
        self._reach("stat", path)
        return super().stat(path)

    def lstat(self, path: str) -> os.stat_result:
        self._reach("lstat", path)
        return super().lstat(path)

    def fstat(self, descriptor: int) -> os.stat_result:
        self._reach_open("fstat", descriptor)
        return super().fstat(descriptor)

    def set_times(self, descriptor: int, access_ns: int, modification_ns: int) -> None:
        self._reach_open("set_times", descriptor)
        super().set_times(descriptor, access_ns, modification_ns)

    def change_mode(self, descriptor: int, mode: int) -> None:
        self._reach_open("change_mode", descriptor)
        super().change_mode(descriptor, mode)

    def list_directory(self, path: str) -> Sequence[str]:
        self._reach("list_directory", path)
        return super().list_directory(path)

    def make_directory(self, path: str, mode: int = 0o777) -> None:
        self._reach("make_directory", path)
        super().make_directory(path, mode)

    def remove_directory(self, path: str) -> None:
        self._reach("remove_directory", path)
        super().remove_directory(path)

    def rename(self, source: str, target: str) -> None:
        self._reach("rename", target)
        super().rename(source, target)

    def link(self, source: str, target: str) -> None:
        self._reach("link", target)
        super().link(source, target)

    def unlink(self, path: str) -> None:
        self._reach("unlink", path)
        super().unlink(path)

    def symlink(self, content: str, path: str) -> None:
        self._reach("symlink", path)
        super().symlink(content, path)

    def read_link(self, path: str) -> str:
        self._reach("read_link", path)
        return super().read_link(path)

    def fsync(self, descriptor: int) -> None:
        self._reach_sync("fsync", descriptor, Scope.FILE)
        super().fsync(descriptor)

    def fdatasync(self, descriptor: int) -> None:
        self._reach_sync("fdatasync", descriptor, Scope.DATA)
        super().fdatasync(descriptor)

    def sync_file_range(self, descriptor: int, offset: int, count: int, flags: int) -> None:
        self._reach_sync("sync_file_range", descriptor, Scope.PAGES)
        super().sync_file_range(descriptor, offset, count, flags)

    def sync_filesystem(self, descriptor: int) -> None:
        self._reach_sync("sync_filesystem", descriptor, Scope.FILESYSTEM)
        super().sync_filesystem(descriptor)

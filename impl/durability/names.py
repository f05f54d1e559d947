"""How files get their names: temporary ones, locks, final ones, and the directories they need."""

import errno
import os
from collections.abc import Callable, Iterable
from enum import Enum
from typing import TypeVar

from impl.durability.port import Port
from impl.errors import LockHeld

_Item = TypeVar("_Item")

LOCK_SUFFIX = ".lock"

_EXCLUSIVE = os.O_RDWR | os.O_CREAT | os.O_EXCL
_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EXDEV, errno.EMLINK)
"""link(2)'s errors where the filesystem, or this file, can have no second name."""


class Publication(Enum):
    """How a temporary file gets its name."""

    LINK = "link, then unlink the temporary name: a file that has the name already is kept"
    RENAME = "rename over whatever is there"


class Names:
    """The directory operations of one transaction.

    :ivar port: the door to the operating system.
    :ivar created: the directories that it made, parents first.
    """

    def __init__(self, port: Port) -> None:
        """Through a port."""
        self.port = port
        self._count = 0
        self._process = f"{os.getpid():x}"
        self.created: list[str] = []

    def unused(self, prefix: str) -> str:
        """A path that no other process makes: the prefix, this process' id and a count."""
        self._count += 1
        return f"{prefix}{self._process}_{self._count:x}"

    def create_unused(self, prefix: str, mode: int) -> tuple[str, int]:
        """A new file's path and descriptor. A crashed process may have left files: they stay."""
        while True:
            path = self.unused(prefix)
            try:
                return path, self.open(path, _EXCLUSIVE, mode)
            except FileExistsError:
                continue

    def make_unused_directory(self, prefix: str, mode: int) -> str:
        """A new directory. After a reboot process ids come again: what a crash left stays."""
        while True:
            path = self.unused(prefix)
            try:
                self.port.make_directory(path, mode)
            except FileExistsError:
                continue
            return path

    def create_lock(self, lock: str, mode: int) -> int:
        """A descriptor of the new lock file. Raises LockHeld if there is one."""
        try:
            return self.open(lock, _EXCLUSIVE, mode)
        except FileExistsError:
            raise LockHeld(lock) from None

    def open(self, path: str, flags: int, mode: int) -> int:
        """open(2), with the directories made that are missing."""
        try:
            return self.port.open(path, flags, mode)
        except FileNotFoundError:
            self.make_directories(os.path.dirname(path))
            return self.port.open(path, flags, mode)

    def make_directories(self, path: str) -> None:
        """Create a directory and what is missing above it. Raises OSError."""
        try:
            self.port.make_directory(path)
        except FileExistsError:
            return
        except FileNotFoundError:
            parent = os.path.dirname(path)
            if parent in ("", path):
                raise
            self.make_directories(parent)
            self.make_directories(path)
            return
        self.created.append(path)

    def give(self, temporary: str, final: str, publication: Publication) -> bool:
        """Publish: the file is at `final` after this, and no longer at `temporary`.

        Returns whether the name is known not to have been there before.
        """
        try:
            return self._give(temporary, final, publication)
        except FileNotFoundError:
            self.make_directories(os.path.dirname(final))
            return self._give(temporary, final, publication)

    def _give(self, temporary: str, final: str, publication: Publication) -> bool:
        if publication is Publication.RENAME:
            self.port.rename(temporary, final)
            return False
        is_new = True
        try:
            self.port.link(temporary, final)
        except FileExistsError:
            is_new = False  # Another process has just stored the same content.
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self.port.rename(temporary, final)
            return False
        self.port.unlink(temporary)
        return is_new


def try_each(action: Callable[[_Item], None], items: Iterable[_Item]) -> list[OSError]:
    """Do it to each, whatever fails: what failed."""
    failures = []
    for item in items:
        try:
            action(item)
        except OSError as error:
            failures.append(error)
    return failures


def unlink_if_there(port: Port, path: str) -> None:
    """Unlink a file that may be gone. Raises OSError."""
    try:
        port.unlink(path)
    except FileNotFoundError:
        return


def remove_directory_if_empty(port: Port, path: str) -> None:
    """Remove a directory that may be gone, unless there is something in it. Raises OSError."""
    try:
        port.remove_directory(path)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
            raise

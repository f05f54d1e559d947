"""Lines that a transaction adds to logs: in place, as git does, or as new files beside the old.

A crash can tear an append in place: the file has grown, and what is in its new part was never
written (ext4, f2fs). A method that must not lose a log's end that way has the log written anew.
"""

import os
from typing import TYPE_CHECKING

from impl.durability.components import Component
from impl.durability.names import Names
from impl.durability.port import read_file, write_all

if TYPE_CHECKING:
    from impl.transaction import RepoTransaction


class Appends:
    """The lines to be added, by path, in the order in which they came."""

    def __init__(self) -> None:
        """None yet."""
        self._lines: dict[str, list[bytes]] = {}

    def add(self, path: str, line: bytes) -> None:
        """Note a line, with its end of line."""
        self._lines.setdefault(path, []).append(line)

    def stage(self, transaction: "RepoTransaction", *, in_place: bool) -> None:
        """Stage whole new files: all of them, or only where the transaction has staged one already.

        A log's copy costs its whole length, once per transaction. It is locked before it is read,
        so that no other process' line is lost. Raises LockHeld, OSError.
        """
        for path in list(self._lines):
            if transaction.is_staged(path):
                content = read_file(transaction.port, transaction.current(path))
                draft = transaction.lock(Component.REFLOG, path)
            elif in_place:
                continue
            else:
                draft = transaction.lock(Component.REFLOG, path)
                content = _content(transaction, path)
            write_all(transaction.port, draft.descriptor, content + self._take(path))
            transaction.stage(draft)

    def write(self, names: Names) -> None:
        """Append in place what is left. Raises OSError."""
        for path in list(self._lines):
            descriptor = names.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            try:
                write_all(names.port, descriptor, self._take(path))
            finally:
                names.port.close(descriptor)

    def _take(self, path: str) -> bytes:
        return b"".join(self._lines.pop(path))


def _content(transaction: "RepoTransaction", path: str) -> bytes:
    try:
        return read_file(transaction.port, path)
    except FileNotFoundError:
        return b""

"""New tables of one transaction, on top of the stack."""

import os
import random
from collections.abc import Sequence

from impl.durability.components import Component
from impl.durability.names import Publication
from impl.durability.port import write_all
from impl.durability.staged import Staged
from impl.refs.locks import TABLES_SECONDS, patiently
from impl.refs.reftable.layout import Header
from impl.refs.reftable.records import LogRecord, RefRecord
from impl.refs.reftable.source import MemorySource
from impl.refs.reftable.stack import Stack, encode_table_list, find_ref, merged_refs
from impl.refs.reftable.table import Table
from impl.refs.reftable.writer import BLOCK_BYTES, encode_table
from impl.refs.values import Symbolic, Value
from impl.transaction import RepoTransaction


class Addition:
    """What one transaction adds. It has `tables.list` locked, so that the stack stands still.

    Operations that are nested into the transaction add a table each, and read those before.
    """

    def __init__(self, tx: RepoTransaction, stack: Stack) -> None:
        """Lock the list. Raises LockHeld, CorruptTableList, CorruptReftable, OSError."""
        self.tx = tx
        self._stack = stack
        self._lock: Staged | None = lock_list(tx, stack)
        self._added: list[Table] = []
        stack.refresh()

    @property
    def tables(self) -> Sequence[Table]:
        """The stack with what was added, oldest first."""
        return [*self._stack.tables, *self._added]

    @property
    def next_update_index(self) -> int:
        """The number of the table to be added."""
        if self._added:
            return self._added[-1].header.max_update_index + 1
        return self._stack.next_update_index

    def claim(self, name: str, may_write: bool) -> Value | None:
        """A reference as it is with what was added: it is locked, for the whole stack is."""
        return self.value(name)

    def value(self, name: str) -> Value | None:
        """A reference as it is with what was added."""
        # The same look at the list as every reader's, although it is locked: so that the calls
        # that seed 002 saves are the ones counted.
        self._stack.refresh()
        record = find_ref(self.tables, os.fsencode(name))
        if record is None:
            return None
        if record.target is not None:
            return Symbolic(os.fsdecode(record.target))
        return (record.value or b"").hex()

    def first_below(self, name: str) -> str | None:
        """A reference whose name continues `name` with a slash."""
        start = os.fsencode(f"{name}/")
        for record in merged_refs(self.tables, start):
            return os.fsdecode(record.name) if record.name.startswith(start) else None
        return None

    def stage(self, refs: Sequence[RefRecord], logs: Sequence[LogRecord]) -> None:
        """Stage a table with these records, in any order, and the list with it; none for none."""
        if not refs and not logs:
            return
        index = self.next_update_index
        header = Header(BLOCK_BYTES, index, index, self._stack.algorithm)
        content = encode_table(
            header,
            sorted(refs, key=lambda record: record.name),
            sorted(logs, key=lambda record: record.key),
        )
        name = stage_table(self.tx, self._stack, header, content)
        self._added.append(Table(name, MemorySource(content)))
        # An earlier list of this transaction is written anew, under the same lock.
        lock = self._lock or self.tx.lock(Component.REFERENCE, self._stack.list_path)
        self._lock = None
        write_all(
            self.tx.port, lock.descriptor, encode_table_list([table.name for table in self.tables])
        )
        self.tx.stage(lock)


def lock_list(tx: RepoTransaction, stack: Stack) -> Staged:
    """Lock `tables.list`, waiting as long as git does. Raises LockHeld."""
    return patiently(lambda: tx.lock(Component.REFERENCE, stack.list_path), TABLES_SECONDS)


def stage_table(tx: RepoTransaction, stack: Stack, header: Header, content: bytes) -> str:
    """Stage a new table, before the list that names it; its name."""
    name = (
        f"0x{header.min_update_index:012x}-0x{header.max_update_index:012x}"
        f"-{random.getrandbits(32):08x}.ref"
    )
    draft = tx.create(
        Component.REFERENCE,
        stack.path(name),
        prefix=f"{name.removesuffix('.ref')}.temp.",
        publication=Publication.RENAME,
        mode=0o666,
    )
    write_all(tx.port, draft.descriptor, content)
    tx.stage(draft)
    return name

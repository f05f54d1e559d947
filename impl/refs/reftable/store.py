"""References in a reftable stack (`extensions.refStorage = reftable`).

How an update is written (git's order): `tables.list` is locked; every old value is checked; one new
table gets all records of the transaction; it appears, then the new list. Compaction comes after
that, in a transaction of its own (`impl.refs.reftable.compactor`).
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from impl.durability.port import Port, read_file
from impl.errors import StoreError
from impl.objects.hashes import HashAlgorithm
from impl.refs.errors import CorruptReference, ReferenceChanged, UnsupportedUpdate
from impl.refs.names import check_name, is_root, is_well_formed, printable
from impl.refs.plan import Change, View, check_object, plan
from impl.refs.reflog import Identity, ReflogEntry, clean_message
from impl.refs.reftable.addition import Addition
from impl.refs.reftable.records import LogChange, LogRecord, RefRecord
from impl.refs.reftable.stack import (
    Stack,
    StackOptions,
    find_ref,
    logs_of,
    merged_logs,
    merged_refs,
)
from impl.refs.reftable.table import check_table
from impl.refs.reftable.writer import BLOCK_BYTES
from impl.refs.store import LogPolicy, OnBroken
from impl.refs.values import Describe, RefUpdate, Symbolic, Value
from impl.transaction import RepoTransaction

_FILES = frozenset({"FETCH_HEAD", "MERGE_HEAD"})
"""What git keeps in files in every format: they may hold several object names."""
_MESSAGE_BYTES_MAX = BLOCK_BYTES // 2
"""git cuts messages here, too: a reflog entry has to fit into a block."""


class ReftableStore:
    """See `impl.refs.store.ReferenceStore`."""

    def __init__(
        self,
        port: Port,
        git_directory: str,
        algorithm: HashAlgorithm,
        policy: LogPolicy,
        describe: Describe,
        options: StackOptions,
    ) -> None:
        """Nothing is read yet."""
        self.algorithm = algorithm
        self.stack = Stack(port, f"{git_directory}/reftable", algorithm, options)
        self._port = port
        self._git_directory = git_directory
        self._policy = policy
        self._describe = describe
        self._addition: Addition | None = None
        self._is_maintaining = False

    def read(self, name: str) -> Value | None:
        """See ReferenceStore."""
        check_name(name)
        if name in _FILES:
            return self._read_file(name)
        self.stack.refresh()
        record = find_ref(self.stack.tables, os.fsencode(name))
        return None if record is None else _value(record)

    def _read_file(self, name: str) -> str | None:
        try:
            content = read_file(self._port, f"{self._git_directory}/{name}")
        except FileNotFoundError:
            return None
        value = content[: self.algorithm.hex_length].decode("latin-1")
        if not self.algorithm.is_name(value):
            raise CorruptReference(f"{name} does not start with an object name: remove it")
        return value

    def list(
        self, prefix: str = "refs/", on_broken: OnBroken | None = None
    ) -> Iterator[tuple[str, Value]]:
        """See ReferenceStore."""
        self.stack.refresh()
        start = os.fsencode(prefix)
        for record in merged_refs(self.stack.tables, start):
            if not record.name.startswith(start):
                return
            name = os.fsdecode(record.name)
            if is_root(name) or is_well_formed(name):
                yield name, _value(record)
                continue
            error = CorruptReference(f"a reference has the invalid name {printable(name)}")
            if on_broken is None:
                raise error
            on_broken(name, error)

    def has_reflog(self, name: str) -> bool:
        """See ReferenceStore."""
        check_name(name)
        self.stack.refresh()
        return bool(logs_of(self.stack.tables, os.fsencode(name)))

    def reflog(self, name: str) -> Sequence[ReflogEntry]:
        """See ReferenceStore."""
        check_name(name)
        self.stack.refresh()
        records = logs_of(self.stack.tables, os.fsencode(name))
        return [_entry(one.change) for one in reversed(records) if _is_entry(one)]

    def reflog_names(self) -> Sequence[str]:
        """See ReferenceStore."""
        self.stack.refresh()
        names = dict.fromkeys(log.name for log in merged_logs(self.stack.tables))
        return [os.fsdecode(name) for name in names]

    def apply(self, tx: RepoTransaction, updates: Sequence[RefUpdate], who: Identity) -> None:
        """See ReferenceStore."""
        addition = self._open(tx)
        view = View(addition.claim, addition.value, addition.first_below, self.algorithm)
        changes = list(plan(view, updates))
        for change in changes:
            check_object(change, self._describe)
            if change.name in _FILES:
                raise UnsupportedUpdate(f"{change.name} is not a reference, but a file of its own")
        index = addition.next_update_index
        refs = [self._ref_record(change, index) for change in changes if _changes_value(change)]
        logs = [log for change in changes for log in self._log_records(addition, change, who)]
        addition.stage(refs, logs)

    def _open(self, tx: RepoTransaction) -> Addition:
        if self._addition is None or self._addition.tx is not tx:
            self._addition = Addition(tx, self.stack)
        return self._addition

    def _ref_record(self, change: Change, index: int) -> RefRecord:
        name = os.fsencode(change.name)
        if change.after is None:
            return RefRecord(name, index)
        if isinstance(change.after, Symbolic):
            return RefRecord(name, index, target=os.fsencode(change.after.target))
        peeled = self._describe(change.after).peeled
        return RefRecord(
            name,
            index,
            bytes.fromhex(change.after),
            None if peeled is None else bytes.fromhex(peeled),
        )

    def _log_records(
        self, addition: Addition, change: Change, who: Identity
    ) -> Iterator[LogRecord]:
        name = os.fsencode(change.name)
        if change.is_deletion:
            for record in logs_of(addition.tables, name):
                yield LogRecord(name, record.update_index, None)
            return
        log = change.log
        if log is None:
            return
        creates = log.is_forced or self._policy.creates(change.name)
        if creates or logs_of(addition.tables, name):
            entry = ReflogEntry(log.old, log.new, who, clean_message(log.message))
            yield LogRecord(name, addition.next_update_index, _log_change(entry))

    def gather(
        self,
        begin: Callable[[], AbstractContextManager[RepoTransaction]],
        updates: Sequence[RefUpdate],
    ) -> None:
        """Nothing: a table holds a whole transaction."""

    def edit_reflog(
        self,
        tx: RepoTransaction,
        name: str,
        before: Sequence[ReflogEntry],
        after: Sequence[ReflogEntry | None],
    ) -> None:
        """See ReferenceStore."""
        check_name(name)
        addition = self._open(tx)
        found = [log for log in logs_of(addition.tables, os.fsencode(name)) if _is_entry(log)]
        found.reverse()
        if [_entry(one.change) for one in found] != list(before) or len(before) != len(after):
            raise ReferenceChanged(f"the reflog of {name} has changed meanwhile: try again")
        logs = [
            LogRecord(one.name, one.update_index, None if new is None else _log_change(new))
            for one, old, new in zip(found, before, after, strict=True)
            if new != old
        ]
        if before and all(entry is None for entry in after):
            logs.append(self._existence(os.fsencode(name), addition.next_update_index))
        addition.stage([], logs)

    def _existence(self, name: bytes, index: int) -> LogRecord:
        """What says that a reference has a reflog, although an empty one."""
        null = bytes(self.algorithm.size_bytes)
        return LogRecord(name, index, LogChange(null, null, b"", b"", 0, 0, b""))

    def pack(self, tx: RepoTransaction, *, everything: bool, prune: bool) -> None:
        """Merge all tables into one. Raises LockHeld."""
        from impl.refs.reftable.compactor import compact_all

        compact_all(self.stack, tx)

    def maintain(self, begin: Callable[[], AbstractContextManager[RepoTransaction]]) -> None:
        """Merge tables where the stack has grown uneven, unless another process does."""
        if self._is_maintaining:
            return  # This is the end of the compaction's own transaction.
        from impl.refs.reftable.compactor import compact_if_uneven

        self._is_maintaining = True
        try:
            compact_if_uneven(self.stack, begin)
        finally:
            self._is_maintaining = False

    def verify(self) -> Iterator[StoreError]:
        """See ReferenceStore."""
        try:
            self.stack.refresh()
        except StoreError as error:
            yield error
            return
        for table in self.stack.tables:
            try:
                check_table(table)
            except StoreError as error:
                yield error

    def close(self) -> None:
        """See ReferenceStore."""
        self.stack.close()


def _value(record: RefRecord) -> Value:
    if record.target is not None:
        return Symbolic(os.fsdecode(record.target))
    return (record.value or b"").hex()


def _changes_value(change: Change) -> bool:
    return change.is_write or change.is_deletion


def _is_entry(log: LogRecord) -> bool:
    change = log.change
    return change is not None and any(change.old + change.new)


def _entry(change: LogChange | None) -> ReflogEntry:
    assert change is not None  # logs_of leaves deletions out.
    who = Identity(change.name, change.email, change.seconds, change.zone)
    return ReflogEntry(change.old.hex(), change.new.hex(), who, change.message.rstrip(b"\n"))


def _log_change(entry: ReflogEntry) -> LogChange:
    message = entry.message[: _MESSAGE_BYTES_MAX - 1]
    who = entry.who
    return LogChange(
        bytes.fromhex(entry.old),
        bytes.fromhex(entry.new),
        who.name,
        who.email,
        who.seconds,
        who.zone,
        message + b"\n" if message else b"",
    )

"""Compaction: neighbouring tables are replaced by one, while others go on reading and adding.

The order is git's. The list is locked; the tables to be merged are locked, newest first, each by a
file of its name with `.lock`, which keeps other compactions off them; the list is unlocked, so that
additions can go on meanwhile. The merged table is written; the list is locked again; the merged
table appears, then the list with it in the others' place; then the others are removed.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from impl.durability.port import write_all
from impl.errors import LockHeld
from impl.refs.errors import ReferenceChanged
from impl.refs.reftable.addition import lock_list, stage_table
from impl.refs.reftable.compaction import merge_tables, tables_to_merge, weight
from impl.refs.reftable.stack import Stack, encode_table_list
from impl.refs.reftable.table import Table
from impl.transaction import RepoTransaction

Choose = Callable[[Sequence[Table]], range]
"""Which of the tables, oldest first, to merge."""


def compact_all(stack: Stack, tx: RepoTransaction) -> None:
    """Merge every table into one. Raises LockHeld if another process is at it."""
    _compact(stack, tx, lambda tables: range(len(tables)))


def compact_if_uneven(
    stack: Stack, begin: Callable[[], AbstractContextManager[RepoTransaction]]
) -> None:
    """Restore the geometric sequence of the tables' sizes, if another process does not."""
    stack.refresh()
    if not _uneven(stack.tables):
        return
    try:
        with begin() as tx:
            _compact(stack, tx, _uneven)
    except (LockHeld, ReferenceChanged):
        return  # The other process will, or the next addition.


def _uneven(tables: Sequence[Table]) -> range:
    return tables_to_merge([weight(table) for table in tables])


def _compact(stack: Stack, tx: RepoTransaction, choose: Choose) -> None:
    merged = _lock_tables(stack, tx, choose)
    if len(merged) < 2:
        return
    is_bottom = merged[0] is stack.tables[0]
    header, content = merge_tables(merged, is_bottom=is_bottom)
    new = [] if content is None else [stage_table(tx, stack, header, content)]
    lock = lock_list(tx, stack)
    stack.refresh()
    names = [table.name for table in stack.tables]
    old = [table.name for table in merged]
    start = names.index(old[0]) if old[0] in names else len(names)
    if names[start : start + len(old)] != old:
        raise ReferenceChanged("the tables were compacted by another process: try again")
    names[start : start + len(old)] = new
    write_all(tx.port, lock.descriptor, encode_table_list(names))
    tx.stage(lock)
    for name in old:
        tx.remove(stack.path(name))


def _lock_tables(stack: Stack, tx: RepoTransaction, choose: Choose) -> Sequence[Table]:
    """Lock the chosen tables, or of those the newest that nobody else has locked."""
    lock = lock_list(tx, stack)
    try:
        stack.refresh()
        chosen = choose(stack.tables)
        held = 0
        for number in reversed(chosen):
            try:
                tx.hold(stack.path(stack.tables[number].name))
            except LockHeld:
                break
            held += 1
        return stack.tables[chosen.stop - held : chosen.stop]
    finally:
        tx.discard(lock)

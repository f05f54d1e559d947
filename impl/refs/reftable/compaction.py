"""Which tables to merge so that a stack stays short, and how they are merged.

git keeps the sizes of a stack's tables in a geometric sequence: each at least `factor` times as
large as all newer ones that it would be merged with. So a stack of n references has O(log n)
tables, and each record is rewritten O(log n) times.
"""

from collections.abc import Sequence

from impl.refs.reftable.layout import Header
from impl.refs.reftable.stack import merged_logs, merged_refs
from impl.refs.reftable.table import Table
from impl.refs.reftable.writer import BLOCK_BYTES, encode_table

GEOMETRIC_FACTOR = 2


def tables_to_merge(sizes: Sequence[int], factor: int = GEOMETRIC_FACTOR) -> range:
    """The numbers of the tables whose merging restores the sequence; empty if it is intact.

    `sizes` are those of the tables in bytes, oldest first. The newest table that is too large for
    the one before it ends the range; from there back, every table belongs to it that is too small
    for the sum of those after it.
    """
    end = next(
        (at + 1 for at in range(len(sizes) - 1, 0, -1) if sizes[at - 1] < sizes[at] * factor), 0
    )
    if not end:
        return range(0)
    start, total = end - 1, sizes[end - 1]
    for at in range(end - 1, 0, -1):
        if sizes[at - 1] < total * factor:
            start = at - 1
        total += sizes[at - 1]
    return range(start, end)


def weight(table: Table) -> int:
    """A table's size without its constant part, so that small ones compare by their content."""
    return table.size_bytes - table.header.size_bytes + 1


def merge_tables(tables: Sequence[Table], *, is_bottom: bool) -> tuple[Header, bytes | None]:
    """One table that holds what neighbouring tables hold together, and its header.

    At the bottom of the stack there is nothing for a deletion to hide, so those are left out; if
    nothing else is there, there is no table.
    """
    first, last = tables[0].header, tables[-1].header
    block_bytes = max(BLOCK_BYTES, *(table.header.block_size_bytes for table in tables))
    header = Header(block_bytes, first.min_update_index, last.max_update_index, first.algorithm)
    refs = list(merged_refs(tables, with_deletions=not is_bottom))
    logs = list(merged_logs(tables, with_deletions=not is_bottom))
    if not refs and not logs:
        return header, None
    return header, encode_table(header, refs, logs)

"""btrfs: transactions of everything, and a log tree for what is fsynced between them.

Sources: Linux fs/btrfs/tree-log.c and its history (names that an fsync logs, conflicting inodes,
new names of logged inodes), fs/btrfs/inode.c (a file's size and extents change as its I/O is done).
"""

from crashsim.model.log_tree import LogTree
from crashsim.model.persistence import DataRules

BTRFS = LogTree(
    "btrfs",
    DataRules(size_after_data=True, copy_on_write=True, unit_bytes=4096),
    keeps_displaced=True,
    logs_more=True,
)

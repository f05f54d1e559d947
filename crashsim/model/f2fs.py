"""f2fs: checkpoints of everything, and roll-forward of files that were fsynced since.

Sources: Linux Documentation/filesystems/f2fs.rst (fsync_mode=posix, the default), fs/f2fs/file.c
(when an fsync needs a checkpoint), fs/f2fs/recovery.c (which nodes are rolled forward),
fs/f2fs/node.c (`fsync_seg_id`: why the first fsync after a checkpoint lags; docs/findings.md).
"""

from crashsim.model.log_tree import LogTree
from crashsim.model.persistence import DataRules

F2FS = LogTree(
    "f2fs",
    DataRules(),
    directory_sync_commits=True,
    names_before_data=True,
    commit_has_written_data=True,
    first_sync_lags=True,
)

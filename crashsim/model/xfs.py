"""XFS: a log in order, sizes recorded when the data's I/O is complete, delayed allocation.

Sources: Linux Documentation/filesystems/xfs/xfs-delayed-logging-design.rst, fs/xfs/xfs_aops.c
(the size is set as the I/O completes), fs/xfs/xfs_file.c (fsync forces the log to the inode's LSN).
"""

from crashsim.model.journal import Journal
from crashsim.model.persistence import DataRules

XFS = Journal("xfs", DataRules(size_after_data=True))

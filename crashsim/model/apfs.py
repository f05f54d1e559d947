"""APFS by its documentation: transactions that are there whole or not at all, in order.

Sources: Apple File System Reference (checkpoints, copy on write of metadata), fsync(2) of macOS
(fsync hands data to the device, which may write it late and out of order; F_FULLFSYNC has it made
permanent: the port's fsync is the latter, its sync_file_range is the former). File content that is
not shared may be overwritten in place.
"""

from crashsim.model.journal import Journal
from crashsim.model.persistence import DataRules

APFS = Journal("apfs", DataRules(size_after_data=True), commit_flushes=False)

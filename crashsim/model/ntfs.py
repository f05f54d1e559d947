"""NTFS by its documentation: metadata is logged in order, file content is not protected.

Sources: Windows Internals (Recoverability: user data is the program's own business, by flushing),
FlushFileBuffers and NtFlushBuffersFileEx in the Windows documentation. A size may be logged before
the data: files of zeros of the right length are what people report. The port's sync_file_range is
FLUSH_FLAGS_FILE_DATA_ONLY, which sends the device no flush; the log is written through the device's
cache (forced unit access), so it can be ahead of that data until somebody calls FlushFileBuffers.
"""

from crashsim.model.journal import Journal
from crashsim.model.persistence import DataRules

NTFS = Journal("ntfs", DataRules(), commit_flushes=False)

"""NTFS by its documentation: metadata is logged in order, file content is not protected.

Sources: Windows Internals (Recoverability: user data is the program's own business, by flushing),
FlushFileBuffers and NtFlushBuffersFileEx in the Windows documentation. A size may be logged before
the data: files of zeros of the right length are what people report.
"""

from crashsim.model.journal import Journal
from crashsim.model.persistence import DataRules

NTFS = Journal("ntfs", DataRules())

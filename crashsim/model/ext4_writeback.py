"""ext4, data=writeback: metadata in order, data whenever.

Source: Linux Documentation/admin-guide/ext4.rst (data=writeback). Its replace-by-rename heuristic
starts the writes here, too, but no commit waits for them: nothing is promised, nothing modelled.
"""

from crashsim.model.journal import Journal
from crashsim.model.persistence import DataRules

EXT4_WRITEBACK = Journal("ext4-writeback", DataRules())

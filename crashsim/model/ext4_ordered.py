"""ext4, data=ordered, with delayed allocation and auto_da_alloc: what mount(8) gives by default.

Sources: Linux Documentation/admin-guide/ext4.rst (data=, auto_da_alloc), fs/ext4/inode.c
(ext4_map_blocks, mpage_map_and_submit_extent), fs/ext4/fsync.c. docs/persistence-models.md has
what follows from them.
"""

from crashsim.model.journal import Journal
from crashsim.model.persistence import DataRules

EXT4_ORDERED = Journal("ext4-ordered", DataRules(), replacement_is_ordered=True)

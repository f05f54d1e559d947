"""Which fsync methods there are: those shipped here, and installed ones.

A package of somebody else's adds a method by an entry point of group `crashsim.fsync_methods`,
`NAME = MODULE:CLASS`. On the command line (`-c core.fsyncMethod=MODULE:CLASS`) a class can be
named directly; in a repository's own configuration it cannot, since whoever wrote that file is
not to choose what is imported.
"""

import importlib

from impl.durability.method import FsyncMethod
from impl.errors import InvalidConfiguration

ENTRY_POINT_GROUP = "crashsim.fsync_methods"

SHIPPED = {
    "fsync": "impl.durability.methods.fsync:Fsync",
    "writeout-only": "impl.durability.methods.writeout_only:WriteoutOnly",
    "batch": "impl.durability.methods.batch:Batch",
    "bulk-rename": "impl.durability.methods.bulk_rename:BulkRename",
    "index-flush": "impl.durability.methods.index_flush:IndexFlush",
    "index-flush-proposed": "impl.durability.methods.index_flush:IndexFlushProposed",
    "pack-idx-flush": "impl.durability.methods.pack_idx_flush:PackIdxFlush",
    "barrier": "impl.durability.methods.barrier:Barrier",
    "strict": "impl.durability.methods.strict:Strict",
    "paired-syncfs": "impl.durability.methods.paired_syncfs:PairedSyncfs",
}
"""`core.fsyncMethod` value -> where its class is; imported when it is used."""


def method_location(name: str) -> str | None:
    """MODULE:CLASS of a method by its name; None if there is none of that name."""
    if name in SHIPPED:
        return SHIPPED[name]
    from importlib.metadata import entry_points  # A costly import, of use only here.

    for entry_point in entry_points(group=ENTRY_POINT_GROUP, name=name):
        return entry_point.value
    return None


def load_method(location: str) -> type[FsyncMethod]:
    """The class at MODULE:CLASS. Raises InvalidConfiguration if there is none."""
    module_name, _, class_name = location.partition(":")
    try:
        found = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise InvalidConfiguration(
            f"no fsync method at '{location}' ({error}): write MODULE:CLASS of a class derived "
            "from impl.durability.method.FsyncMethod"
        ) from error
    if not (isinstance(found, type) and issubclass(found, FsyncMethod)):
        raise InvalidConfiguration(f"'{location}' is not derived from FsyncMethod")
    return found

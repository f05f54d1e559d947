"""What the store's syncs are tried out on: one operation each, from a durable state that makes it
do something which can be lost."""

from dataclasses import dataclass, replace

from crashsim.workloads.simulated import OPERATIONS, StoreOperation, operation


@dataclass(frozen=True, slots=True)
class Scenario:
    """One operation and what comes before it.

    :ivar before: operations whose outcome is durable.
    :ivar keeps_changes: it puts local changes into a stash or takes them out: none may be lost.
    :ivar of_state: it changes HEAD, which git syncs under no setting: on xfs, btrfs and f2fs it
        can be empty then. Of this only methods that cover state claim anything.
    """

    operation: StoreOperation
    before: tuple[StoreOperation, ...] = ()
    keeps_changes: bool = False
    of_state: bool = False


_MANY_FILES = 1_050
"""A .rev of so many objects is longer than a page, so that a part of it can be missing."""

_GC_OF_UNREACHABLE = "-c gc.reflogExpire=never -c gc.reflogExpireUnreachable=now gc -q --prune=now"
_MIDX = "multi-pack-index"

_EDIT = operation("edit", fresh=1, changed=1)
_STAGE = operation("stage", "add --all", fresh=1, changed=1)
_TOPIC = operation("branch", "branch topic")
_AMENDED = (
    operation("commit", "add --all", "commit -q -m first", fresh=1, changed=1),
    operation("amend", "commit -q --amend -m amended"),
    operation("commit", "add --all", "commit -q -m second", fresh=1, changed=1),
)
"""Reflogs of which a part can expire, and loose objects that nothing but that part leads to."""

_MANY = operation("many", "add --all", "commit -q -m many", "repack -q -a -d", fresh=_MANY_FILES)
_NOTHING_LEFT = operation("empty", "update-ref -d refs/heads/main", "read-tree --empty")
"""Nothing but a reflog leads to any object: a repack finds nothing to do, and makes no sync."""

_TWO_PACKS = (
    operation("repack", "repack -q -a -d"),
    operation("commit", "add --all", "commit -q -m more", "repack -q -d", fresh=1),
    operation(_MIDX, f"{_MIDX} write --no-progress", f"{_MIDX} repack --no-progress"),
)

_ALONE = tuple(OPERATIONS.values())
SCENARIOS = (
    *(Scenario(each, tuple(OPERATIONS[name] for name in each.needs[:1])) for each in _ALONE),
    Scenario(replace(OPERATIONS["stash"], fresh=0, changed=0), (_EDIT,), keeps_changes=True),
    Scenario(replace(OPERATIONS["stash"], fresh=0, changed=0), (_STAGE,), keeps_changes=True),
    Scenario(
        operation("stash-pop", "stash pop -q --index", unnoted_between=("index",)),
        (_STAGE, OPERATIONS["stash"]),
        keeps_changes=True,
    ),
    Scenario(operation("gc", _GC_OF_UNREACHABLE), _AMENDED),
    Scenario(operation("gc", "gc -q --prune=now"), (_NOTHING_LEFT,)),
    Scenario(operation("repack", "repack -q -a -d"), (_MANY, OPERATIONS["commit"])),
    Scenario(operation("gc", "gc -q --prune=now"), (_MANY, OPERATIONS["commit"])),
    Scenario(operation("pack-refs", "pack-refs --all --prune"), (OPERATIONS["tag"],)),
    Scenario(operation("commit-all", "commit -q -a -m all", changed=2)),
    Scenario(
        operation("expire", "reflog expire --expire=never --expire-unreachable=now --all"), _AMENDED
    ),
    Scenario(operation("delete-branch", "branch -q -D topic"), (_TOPIC,)),
    Scenario(
        operation("symbolic-ref", "symbolic-ref HEAD refs/heads/topic"), (_TOPIC,), of_state=True
    ),
    Scenario(operation("midx-expire", f"{_MIDX} expire --no-progress"), _TWO_PACKS),
)
"""Each operation by itself, after what it needs; then those with a longer story."""

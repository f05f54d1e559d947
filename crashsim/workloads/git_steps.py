"""What the git workload can do: steps of shell script, and named sequences of steps.

Each step is one thing that a user does and then believes to be saved. In a script the working
directory is the repository, `$STAGE` holds the step's new files (outside of the filesystem under
test), `$REMOTE` is a bare repository on that filesystem and `$UPSTREAM` one outside of it.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from crashsim.errors import UsageError


class UnknownSequence(UsageError):
    """A sequence of git steps was asked for that crashsim does not have."""


@dataclass(frozen=True, slots=True)
class GitStep:
    """One step, before the workload has given it files and a place.

    :ivar changed_percent: the share of the tracked files that get new content in `$STAGE`.
    :ivar fresh: whether `$STAGE` has files with new names, too.
    :ivar unnoted_between: parts of a repository (the git oracle's words) that hold values of no
        promise while the step is under way.
    :ivar one_transaction: whether git is asked to change all of the step's refs or none.
    """

    name: str
    script: str
    changed_percent: int = 0
    fresh: bool = False
    unnoted_between: tuple[str, ...] = ()
    one_transaction: bool = False


_TAKE = 'cp -R "$STAGE/." .'


def _add(number: int) -> GitStep:
    changed_percent = 50 if number > 1 else 0
    return GitStep(f"add-{number}", f"{_TAKE}; git add --all", changed_percent, fresh=True)


def _commit(number: int) -> GitStep:
    return GitStep(f"commit-{number}", f"git commit -q -m commit-{number}")


def _stash(number: int) -> GitStep:
    script = f"{_TAKE}; git stash push -q -u -m stash-{number}"
    return GitStep(f"stash-{number}", script, changed_percent=50, fresh=True)


def _repack(number: int) -> GitStep:
    return GitStep(f"repack-{number}", "git repack -q -a -d")


_COMMIT_ALL = GitStep("commit-all", f"{_TAKE}; git commit -q -a -m commit-all", changed_percent=100)
# One transaction over several refs: all or none of them.
_CREATE_REFS = GitStep(
    "create-refs",
    r"printf '%s\n' 'create refs/heads/topic/a HEAD' 'create refs/heads/topic/b HEAD~1' "
    "'create refs/archive/c HEAD' | git update-ref --stdin",
    one_transaction=True,
)
_MOVE_REFS = GitStep(
    "move-refs",
    r"printf '%s\n' 'update refs/heads/topic/a HEAD~1' 'update refs/heads/topic/b HEAD' "
    "'delete refs/archive/c' | git update-ref --stdin",
    one_transaction=True,
)
# Long enough that something else happens before its end.
_CREATE_MANY = GitStep(
    "create-many",
    r"seq 24 | sed 's,.*,create refs/heads/many/& HEAD,' | git update-ref --stdin",
    one_transaction=True,
)
_MOVE_MANY = GitStep(
    "move-many",
    r"seq 24 | sed 's,.*,update refs/heads/many/& HEAD~1,' | git update-ref --stdin",
    one_transaction=True,
)
_TAG = GitStep("tag", "git tag -a -m tag v1")
_DELETE_BRANCH = GitStep("delete-branch", "git branch -q -D topic/b")
_NEW_BRANCH = GitStep("new-branch", "git switch -q -c topic/new")
_SWITCH = GitStep("switch", "git switch -q -c feature HEAD~1")
_SWITCH_BACK = GitStep("switch-back", "git switch -q main")
_PACK_REFS = GitStep("pack-refs", "git pack-refs --all --prune")
_GC = GitStep("gc", "git gc -q --prune=now")
_MIDX = GitStep("multi-pack-index", "git multi-pack-index write --no-progress")
# git stages everything that it restores, writes the index, and unstages it again.
_STASH_POP = GitStep("stash-pop", "git stash pop -q", unnoted_between=("index",))
_PUSH = GitStep("push", 'git push -q "$REMOTE" main')
# With a limit of one object the receiver keeps the pack (index-pack), as it does with a hundred.
_PUSH_PACK = GitStep(
    "push-pack",
    'git push -q --receive-pack="git -c receive.unpackLimit=1 receive-pack" "$REMOTE" '
    "main:refs/heads/packed",
)
_FETCH = GitStep("fetch", 'git fetch -q "$UPSTREAM" refs/heads/one:refs/remotes/upstream/one')
_FETCH_PACK = GitStep(
    "fetch-pack",
    'git -c fetch.unpackLimit=1 fetch -q "$UPSTREAM" refs/heads/two:refs/remotes/upstream/two',
)

_UNPACK = GitStep(
    "unpack",
    'git unpack-objects -q <"$UPSTREAM/one.pack"; '
    'git update-ref refs/remotes/upstream/one "$(cat "$UPSTREAM/one.tip")"',
)
_INDEX_PACK = GitStep(
    "index-pack",
    'git index-pack --stdin <"$UPSTREAM/two.pack" >/dev/null; '
    'git update-ref refs/remotes/upstream/two "$(cat "$UPSTREAM/two.tip")"',
)
_MIDX_REPACK = GitStep("midx-repack", "git multi-pack-index repack --no-progress --batch-size=0")
_MIDX_EXPIRE = GitStep("midx-expire", "git multi-pack-index expire --no-progress")

_TWO_COMMITS = (_add(1), _commit(1), _add(2), _commit(2))

SEQUENCES: Mapping[str, Sequence[GitStep]] = MappingProxyType(
    {
        "default": (
            # A bit of everything that takes a few seconds under emulation, so not a push.
            *_TWO_COMMITS,
            *(_CREATE_REFS, _stash(1), _NEW_BRANCH, _PACK_REFS, _repack(1), _STASH_POP),
        ),
        "commit": (*_TWO_COMMITS, _COMMIT_ALL),
        "stash": (_add(1), _commit(1), _stash(1), _stash(2), _STASH_POP),
        # Once each of what the model tries (`simulated.OPERATIONS`).
        "each": (
            *(_add(1), _commit(1), _CREATE_REFS, _TAG, _PACK_REFS, _stash(1), _STASH_POP),
            *(_repack(1), _MIDX, _GC),
        ),
        "gc": (_add(1), _commit(1), _repack(1), _add(2), _commit(2), _repack(2), _COMMIT_ALL, _GC),
        "refs": (
            *_TWO_COMMITS,
            *(_CREATE_REFS, _TAG, _PACK_REFS, _MOVE_REFS, _SWITCH, _SWITCH_BACK, _DELETE_BRANCH),
        ),
        "many-refs": (*_TWO_COMMITS, _CREATE_MANY, _MOVE_MANY),
        "packs": (
            *(_add(1), _commit(1), _repack(1), _UNPACK, _INDEX_PACK),
            *(_MIDX, _MIDX_REPACK, _MIDX_EXPIRE),
        ),
        "push": (*_TWO_COMMITS, _PUSH, _COMMIT_ALL, _PUSH_PACK, _FETCH, _FETCH_PACK),
        "full": (
            *_TWO_COMMITS,
            *(_CREATE_REFS, _TAG, _stash(1), _stash(2), _SWITCH, _SWITCH_BACK, _PUSH, _repack(1)),
            *(_STASH_POP, _COMMIT_ALL, _PUSH_PACK, _FETCH, _FETCH_PACK, _MIDX, _PACK_REFS),
            *(_MOVE_REFS, _DELETE_BRANCH, _GC),
        ),
    }
)
"""The named sequences; the names of the steps of one are unique."""

_SIZES_BYTES = (64, 900, 2_600, 6_000, 14_000)
"""Below and above what filesystems keep inside their metadata, and up to several blocks."""

_LETTERS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def sequence(name: str) -> Sequence[GitStep]:
    """The steps of a named sequence; UnknownSequence, naming the known ones."""
    if name not in SEQUENCES:
        raise UnknownSequence(f"unknown git sequence {name!r}: crashsim has {', '.join(SEQUENCES)}")
    return SEQUENCES[name]


def sets_head(name: str) -> bool:
    """Whether a sequence has HEAD name another branch, which git syncs under no setting."""
    return any("git switch" in step.script for step in sequence(name))


def stage_files(
    steps: Sequence[GitStep], files: int, seed: int
) -> Mapping[str, Mapping[str, bytes]]:
    """The new files of each step: step name -> path in the repository -> content.

    :param files: how many new names a step with `fresh` gets.

    No content occurs twice, in this recording or (by the seed) in another: git writes no object
    that it already has, and an object already there would hide a lost one.
    """
    chooser = random.Random(f"git:{seed}")
    tracked: list[str] = []
    staged: dict[str, dict[str, bytes]] = {}
    for step in steps:
        changed = chooser.sample(tracked, len(tracked) * step.changed_percent // 100)
        fresh = [f"{step.name}/{number % 3}/{number}.txt" for number in range(files * step.fresh)]
        staged[step.name] = {
            path: unique_content(chooser, number) for number, path in enumerate((*changed, *fresh))
        }
        if step.name.startswith("add-"):
            tracked += fresh
    return staged


def upstream_files(files: int, seed: int) -> Mapping[str, Mapping[str, bytes]]:
    """The new files of the two branches of `$UPSTREAM`, in the shape of `stage_files`."""
    chooser = random.Random(f"upstream:{seed}")
    return {
        f"upstream-{branch}": {
            f"{branch}/{number}.txt": unique_content(chooser, number) for number in range(files)
        }
        for branch in ("one", "two")
    }


def unique_content(chooser: random.Random, number: int) -> bytes:
    """Text of lines, random and so unlike any other, hard to compress."""
    size = _SIZES_BYTES[number % len(_SIZES_BYTES)]
    text = bytes(_LETTERS[byte & 63] for byte in chooser.randbytes(size))
    return b"\n".join(text[start : start + 63] for start in range(0, size, 63)) + b"\n"

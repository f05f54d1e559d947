"""What a repository is used for in one of many lives, each ended by a power cut.

Every step makes sense in whatever state the life before left: nothing is merged, nothing needs a
clean working tree, which a crash may have damaged, and what a step removes need not be there. The
number of files and references is bounded, and every `RENEWAL` lives the history begins anew from
what HEAD holds, and the rest is forgotten: life 200 has no more to read than life 20.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from crashsim.errors import UsageError
from crashsim.workloads.git import GitWorkload, as_step
from crashsim.workloads.git_steps import GitStep, unique_content
from crashsim.workloads.impl import run_by_the_store

SEQUENCES = ("default", "synced")
"""`synced` is what core.fsync has a component for: no stash, no reflogs, HEAD and the config stay
what they are."""

RENEWAL = 12
"""In lives."""

_PATHS = tuple(f"files/{number % 4}/{number}.txt" for number in range(20))
_UNTRACKED = "scratch.txt"
_CHANGED_FILES = 4
_CHUNKS_MIN, _CHUNKS_MAX = 1, 4

_TAKE = 'mkdir -p files; cp -R "$STAGE/." .'
_WITHOUT_REFLOGS = MappingProxyType(
    {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.logAllRefUpdates",
        "GIT_CONFIG_VALUE_0": "false",
    }
)


class NoSuchLife(UsageError):
    """A sequence of lives, or a kind of step, was asked for that crashsim does not have."""


@dataclass(frozen=True, slots=True)
class _Chunk:
    """Steps that belong together.

    :ivar weight: how often it comes, compared with the others.
    """

    steps: tuple[str, ...]
    weight: int


_CHUNKS = (
    _Chunk(("add", "commit"), 6),
    _Chunk(("add",), 1),
    _Chunk(("refs",), 2),
    _Chunk(("tag",), 1),
    _Chunk(("drop",), 1),
    _Chunk(("pack-refs",), 1),
    _Chunk(("repack",), 1),
    _Chunk(("stash",), 1),
    _Chunk(("stash", "stash-pop"), 1),
    _Chunk(("switch",), 1),
    _Chunk(("delete-branch",), 1),
)
_UNSYNCED = frozenset({"stash", "stash-pop", "switch", "delete-branch"})
"""`git branch -D` writes the config anew."""

_FOLLOWS = MappingProxyType({"commit": "add", "stash-pop": "stash"})
"""What only makes sense right after something else."""

KINDS = tuple(dict.fromkeys(kind for chunk in _CHUNKS for kind in chunk.steps))


def kinds_of(sequence: str, seed: int, number: int, ends_with: str = "") -> tuple[str, ...]:
    """The kinds of the steps of one life.

    :param number: which life, from 1 on.
    :param ends_with: the life goes up to the first step of this kind, which is added if need be.
    Raises NoSuchLife.
    """
    if sequence not in SEQUENCES:
        raise NoSuchLife(f"unknown sequence of lives {sequence!r}: {', '.join(SEQUENCES)}")
    chooser = random.Random(f"life:{seed}:{number}")
    chunks = [chunk for chunk in _CHUNKS if sequence == "default" or not _is_unsynced(chunk)]
    if ends_with and ends_with not in {kind for chunk in chunks for kind in chunk.steps}:
        raise NoSuchLife(f"no step of the kind {ends_with!r} in {sequence}: {', '.join(KINDS)}")
    count = chooser.randint(_CHUNKS_MIN, _CHUNKS_MAX)
    chosen = chooser.choices(chunks, [chunk.weight for chunk in chunks], k=count)
    kinds = [kind for chunk in chosen for kind in chunk.steps]
    if number % RENEWAL == 0:
        kinds = ["renew", "forget", "gc", *kinds]
    if ends_with:
        if ends_with not in kinds:
            kinds += [_FOLLOWS[ends_with]] if ends_with in _FOLLOWS else []
            kinds.append(ends_with)
        kinds = kinds[: kinds.index(ends_with) + 1]
    return tuple(kinds)


def _is_unsynced(chunk: _Chunk) -> bool:
    return not _UNSYNCED.isdisjoint(chunk.steps)


def life_steps(kinds: Sequence[str], seed: int, number: int) -> list[GitStep]:
    """The steps of one life, by their kinds."""
    chooser = random.Random(f"life-steps:{seed}:{number}")
    return [_step(kind, f"{kind}-{place}", number, chooser) for place, kind in enumerate(kinds, 1)]


def _step(kind: str, name: str, number: int, chooser: random.Random) -> GitStep:
    topics = chooser.sample("abcdef", 3)
    there = f"if git show-ref -q --verify refs/heads/topic/{topics[0]}"
    scripts = {
        "add": f"{_TAKE}; git add --all",
        "commit": f"git commit -q --allow-empty -m '{name} of life {number}'",
        "refs": "printf '%s\\n' "
        + " ".join(f"'update refs/heads/topic/{topic} HEAD'" for topic in topics)
        + " | git update-ref --stdin",
        "tag": f"git tag -f -a -m '{name} of life {number}' mark-{chooser.randrange(4)} >/dev/null",
        "drop": f"{there}; then git update-ref -d refs/heads/topic/{topics[0]}; fi",
        "delete-branch": f"{there}; then git branch -q -D topic/{topics[0]}; fi",
        "pack-refs": "git pack-refs --all --prune",
        "repack": "git repack -q -a -d",
        "stash": f"{_TAKE}; git stash push -q -u -m '{name} of life {number}'",
        "stash-pop": "git stash pop -q",
        "switch": f"git switch -q -c line-{number}-{name}",
        "renew": _RENEW.format(number=number),
        "forget": "git stash clear; git reflog expire --expire=now --all",
        "gc": "git gc -q --prune=now",
    }
    return GitStep(
        name,
        scripts[kind],
        # git stages everything that it restores, writes the index, and unstages it again.
        unnoted_between=("index",) if kind == "stash-pop" else (),
        one_transaction=kind == "refs",
    )


_RENEW = """
root=$(git commit-tree -m 'life {number} begins anew' "$(git rev-parse 'HEAD^{{tree}}')")
git update-ref HEAD "$root"
head=$(git symbolic-ref HEAD)
git for-each-ref --format='%(refname)' refs/heads refs/tags |
while read -r name; do
    if test "$name" != "$head"; then echo "delete $name"; fi
done | git update-ref --stdin
"""


def life_workload(
    template: GitWorkload, sequence: str, steps: Sequence[GitStep], seed: int, number: int
) -> GitWorkload:
    """The workload of one life.

    :param template: says which program, and how it is configured.
    """
    by_the_store = bool(template.program)
    made = [as_step(step) for step in steps]
    extra = _WITHOUT_REFLOGS if sequence == "synced" else {}
    return replace(
        template,
        sequence=f"life {number} of {sequence}",
        seed=seed,
        steps=tuple(
            run_by_the_store(step, template.options.method) if by_the_store else step
            for step in made
        ),
        staged=_staged(steps, seed, number),
        environment={**template.environment, **extra},
        has_upstream=False,
    )


def _staged(steps: Sequence[GitStep], seed: int, number: int) -> Mapping[str, Mapping[str, bytes]]:
    """New contents for the steps that take some; none of them was there in any life."""
    chooser = random.Random(f"life-files:{seed}:{number}")
    staged: dict[str, Mapping[str, bytes]] = {}
    for step in steps:
        if _TAKE in step.script:
            paths = [*chooser.sample(_PATHS, _CHANGED_FILES), _UNTRACKED]
            staged[step.name] = {
                path: unique_content(chooser, chooser.randrange(4)) for path in paths
            }
    return staged

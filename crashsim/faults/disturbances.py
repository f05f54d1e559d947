"""What happens meanwhile that the program did not ask for.

Ordering bugs hide unless something else makes the kernel write early: a recording of a program
alone on its disk holds few writes that could be lost. A disturbance is described here, as data;
the ones that run in the guest are carried out by `machines/agent/disturb.py`, the others by the
recorder.

| kind | what it does | who does it |
|---|---|---|
| fsync | an unrelated process appends to its own file, or replaces it, and fsyncs | guest |
| writer | an unrelated process streams a large file, with pauses and without any sync | guest |
| writeback | files picked at random are written back early, as under memory pressure | guest |
| commit | the filesystem's timed commit fires each second, with pauses for it | recorder |
| slow | the program's system calls are slowed, so that others fall between | recorder |

A run of equal seeds makes equal choices; when they happen is up to the guest's scheduler.
"""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from crashsim.errors import UsageError

DISTURBANCE_DIRECTORY = ".crashsim-disturb"
"""Where disturbances keep their files, in the filesystem's root: never part of a checked tree."""

EXCLUDE = (DISTURBANCE_DIRECTORY,)
"""What every tree leaves out, relative to the filesystem's root."""


class UnknownDisturbance(UsageError):
    """A disturbance was asked for that crashsim does not have."""


class Kind(StrEnum):
    """The kinds of disturbances."""

    FSYNC = "fsync"
    WRITER = "writer"
    WRITEBACK = "writeback"
    COMMIT = "commit"
    SLOW = "slow"


NONE = "none"
DEFAULT = (Kind.FSYNC, Kind.WRITER, Kind.WRITEBACK, Kind.COMMIT)
"""Part of every run that does not say otherwise."""

IN_GUEST = frozenset({Kind.FSYNC, Kind.WRITER, Kind.WRITEBACK})

_PARAMETERS: Mapping[Kind, Mapping[str, int]] = MappingProxyType(
    {
        Kind.FSYNC: {
            "pause_ms_min": 5,
            "pause_ms_max": 40,
            "append_bytes": 512,
            "file_bytes_max": 65_536,
            "replace_percent": 20,
        },
        # 4 MiB in all, so that a log stays small: what matters is that it goes on for a while.
        Kind.WRITER: {
            "pause_ms_min": 20,
            "pause_ms_max": 120,
            "chunk_bytes": 65_536,
            "total_bytes_max": 4 << 20,
        },
        Kind.WRITEBACK: {"pause_ms_min": 5, "pause_ms_max": 60},
        Kind.COMMIT: {"pause_percent": 35, "pause_ms_max": 1200},
        Kind.SLOW: {"delay_us_min": 200, "delay_us_max": 5000},
    }
)


@dataclass(frozen=True, slots=True)
class Disturbance:
    """One disturbance of one recording.

    :ivar seed: everything that it chooses at random follows from this.
    :ivar parameters: how much of it; names end in their unit.
    """

    kind: Kind
    seed: int
    parameters: Mapping[str, int] = field(default_factory=dict)

    def specification(self, root: str) -> dict[str, str | int]:
        """What the guest's agent is told, for a kind in `IN_GUEST`.

        :param root: where the filesystem to disturb is mounted.
        """
        return {
            "kind": self.kind.value,
            "seed": self.seed,
            "root": root,
            "directory": DISTURBANCE_DIRECTORY,
            **self.parameters,
        }


def parse_disturbances(names: Iterable[str] | None, seed: int) -> tuple[Disturbance, ...]:
    """Read `--disturb`, given any number of times; each may be a list with commas.

    Nothing given stands for `DEFAULT`; `none` alone for no disturbance at all. Raises
    UnknownDisturbance for an unknown name, and for `none` among others.
    """
    words = [word for text in names or () for word in text.split(",")]
    if not words:
        return make(DEFAULT, seed)
    if words == [NONE]:
        return ()
    for word in words:
        if word == NONE:
            raise UnknownDisturbance("--disturb none stands alone: leave it or the others out")
        if word not in set(Kind):
            known = ", ".join((NONE, *Kind))
            raise UnknownDisturbance(f"unknown disturbance {word!r}: crashsim knows {known}")
    return make([kind for kind in Kind if kind in words], seed)


def make(kinds: Iterable[Kind], seed: int) -> tuple[Disturbance, ...]:
    """One disturbance of each kind, with seeds of its own that follow from `seed`."""
    return tuple(
        Disturbance(kind, random.Random(f"{seed}:{kind}").getrandbits(32), _PARAMETERS[kind])
        for kind in kinds
    )


def find(disturbances: Sequence[Disturbance], kind: Kind) -> Disturbance | None:
    """The disturbance of that kind, if there is one."""
    return next((each for each in disturbances if each.kind is kind), None)


def pauses_seconds(commit: Disturbance, count: int) -> list[float]:
    """How long to wait after each of `count` steps, so that a timed commit falls in between."""
    chooser = random.Random(commit.seed)
    chance = commit.parameters["pause_percent"] / 100
    most = commit.parameters["pause_ms_max"] / 1000
    return [chooser.uniform(0, most) if chooser.random() < chance else 0.0 for _ in range(count)]


_SLOWED_CALLS = ",".join(
    (
        *("fsync", "fdatasync", "sync_file_range", "rename", "renameat", "renameat2"),
        *("link", "linkat", "unlink", "unlinkat"),
    )
)


def slow_down(slow: Disturbance, argv: Sequence[str], number: int) -> list[str]:
    """Wrap a command so that its system calls that order or publish things are slowed.

    :param number: which command of the recording this is: each is slowed differently.

    By strace(1), option --inject with delay_enter, in microseconds: the delay comes before the call
    has any effect, so it widens the window between what a program wrote and what it does next.
    """
    chooser = random.Random(f"{slow.seed}:{number}")
    delay = chooser.randint(slow.parameters["delay_us_min"], slow.parameters["delay_us_max"])
    every = chooser.randint(1, 3)
    return [
        *("strace", "-f", "-qqq", "-o", "/dev/null", "-e", f"trace={_SLOWED_CALLS}"),
        *("-e", "signal=none"),
        f"--inject={_SLOWED_CALLS}:delay_enter={delay}:when={every}+{every}",
        *("--", *argv),
    ]

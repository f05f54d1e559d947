"""The oracle of `crashsim selftest`: what each of its programs may leave, before and after.

Judges all programs that one recording holds. The rule of a violation is the program's run, so that
each run that breaks something is a finding of its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from crashsim.machines.protocol import Guest
from crashsim.machines.tree import Tree
from crashsim.oracles.outcomes import look_in, outcome
from crashsim.oracles.protocol import Moment, Property, Violation
from crashsim.workloads.selftest_programs import (
    BEGUN,
    BLOCK_BYTES,
    CAREFUL,
    CARELESS,
    MANY,
    SAVED,
    directory,
)

ANYTHING = ("*",)


@dataclass(frozen=True, slots=True)
class Rule:
    """What may be left of a program's files, as patterns (fnmatch) of outcomes.

    :ivar files: which files count, relative to the program's directory.
    :ivar begun: what may be left from its begin on.
    :ivar saved: what may be left once it has promised that all is saved.
    """

    files: tuple[str, ...]
    begun: tuple[str, ...]
    saved: tuple[str, ...]


_OBJECTS = tuple(f"object-{number}" for number in range(MANY))
_ALL_OBJECTS = " ".join(f"{name}=new" for name in _OBJECTS)
_SAVED = Rule(("value",), ANYTHING, ("new",))
_REPLACED = Rule(("value",), ("old", "new"), ("new",))

RULES: Mapping[str, Rule] = {
    "no-fsync": _SAVED,
    "wrong-file": _SAVED,
    "early-promise": _SAVED,
    "buffered": _SAVED,
    "trusted": Rule(("object",), ANYTHING, ("new",)),
    "unsynced-directory": _REPLACED,
    "late-fsync": Rule(("value",), ("missing", "new"), ("new",)),
    "truncated": _REPLACED,
    "early-unlink": Rule(
        ("copy-1", "copy-2"), ("copy-1=old *", "* copy-2=new"), ("copy-1=missing copy-2=new",)
    ),
    "write-out-only": _SAVED,
    "unordered": Rule(
        ("content", "pointer"),
        ("* pointer=old", "content=new *", "* pointer=torn*"),
        ("content=new pointer=new",),
    ),
    "torn": _REPLACED,
    "batch": Rule(_OBJECTS, ANYTHING, (_ALL_OBJECTS,)),
}
"""By program."""


@dataclass(slots=True)
class SelftestOracle:
    """Judges the programs' files in this process."""

    programs: tuple[str, ...]
    properties: Sequence[Property] = (Property.DURABLE, Property.ATOMIC)

    def judge(self, tree: Tree, moment: Moment) -> list[Violation]:
        """A violation for each run that left something which its rule does not allow."""
        found = []
        for program in self.programs:
            for twin in (CARELESS, CAREFUL):
                violation = _judge_run(program, twin, tree, moment)
                if violation is not None:
                    found.append(violation)
        return found

    def exercise_key(self, tree: Tree, moment: Moment) -> object | None:
        """Nothing is tried out in the guest."""
        return None

    def exercise(self, guest: Guest, root: str, tree: Tree, moment: Moment) -> list[Violation]:
        """Nothing is tried out in the guest."""
        return []

    def second_opinion(self, guest: Guest, root: str) -> Mapping[str, str]:
        """None: nobody else knows these programs."""
        return {}


def run_name(program: str, twin: str) -> str:
    """How a program's run is called, in marks and in violations: `no-fsync careless`."""
    return f"{program} {twin}"


def _judge_run(program: str, twin: str, tree: Tree, moment: Moment) -> Violation | None:
    rule, run = RULES[program], run_name(program, twin)
    saved = f"{SAVED} {run}" in moment.promises
    if not saved and f"{BEGUN} {run}" not in moment.promises:
        return None
    place = directory(program, twin == CAREFUL)
    left = outcome(rule.files, look_in(tree, place, BLOCK_BYTES))
    allowed = rule.saved if saved else rule.begun
    if any(fnmatchcase(left, pattern) for pattern in allowed):
        return None
    when = "after it promised that all is saved" if saved else "while it was at work"
    return Violation(
        Property.DURABLE if saved else Property.ATOMIC,
        run,
        place,
        f"{run} left {left} {when}; allowed: {', '.join(allowed)}",
    )

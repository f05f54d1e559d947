"""What an exploration found and what it covered."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from crashsim.disk.state import CrashState
from crashsim.explore.verdict import DecidedBy, Verdict
from crashsim.oracles.protocol import Property, Violation

Kind = tuple[Property, str]
"""(property, rule): violations of one kind are one finding, and shrinking keeps it."""


def kind_of(violation: Violation) -> Kind:
    """The kind of a violation."""
    return violation.property, violation.rule


def simplicity(state: CrashState) -> tuple[int, int, int]:
    """The order in which states get simpler; smaller is simpler.

    Fewer torn writes, then fewer dropped writes, then an earlier cut: the order of what has to be
    explained. "The power went here" needs no more words, "and this write was lost although later
    ones were not" needs a device that reorders, and a torn write needs to be told unit by unit.
    """
    return len(state.torn), len(state.dropped), state.cut


@dataclass(frozen=True, slots=True)
class Failure:
    """All violations of one kind, by the simplest explored state that shows it.

    :ivar state: of several equally simple ones the first in the order of exploration.
    :ivar violation: the first of its kind at that state.
    :ivar states: how many explored states show the kind.
    """

    state: CrashState
    violation: Violation
    states: int = 1

    @property
    def kind(self) -> Kind:
        """(property, rule)."""
        return kind_of(self.violation)


@dataclass(frozen=True)
class Exploration:
    """The result of `explore`.

    :ivar verdicts: the violations of every state that was decided, in the order of exploration.
    :ivar inconclusive: states without a (whole) answer -> why. What was found before a check broke
        down is a violation all the same, so a state may be in both.
    :ivar failures: one for each kind of violation, in the order in which they were met.
    :ivar decided_by: how many states were decided in which way; sums up to the number explored.
    :ivar properties: property -> (states it was checked on, states that broke it).
    :ivar possible: how many states there are (`possible_states`), None: more than 2**53.
    :ivar distinct: how many different disk images the explored states stand for.
    :ivar coverage: a sentence about all this.
    :ivar seconds: phase -> seconds, summed over the workers; `explore` is the wall clock's.
    :ivar time_over: the time limit ended it.
    """

    verdicts: Mapping[CrashState, tuple[Violation, ...]]
    inconclusive: Mapping[CrashState, str]
    failures: tuple[Failure, ...]
    decided_by: Mapping[DecidedBy, int]
    properties: Mapping[Property, tuple[int, int]]
    possible: int | None
    distinct: int
    coverage: str
    seconds: Mapping[str, float]
    time_over: bool = False

    @property
    def explored(self) -> int:
        """How many states were looked at, the inconclusive ones included."""
        return sum(self.decided_by.values())


def exploration_of(state: CrashState, violations: tuple[Violation, ...]) -> Exploration:
    """One state that was recovered and found to violate something."""
    verdicts = {state: violations}
    return Exploration(
        verdicts=verdicts,
        inconclusive={},
        failures=failures_of(verdicts),
        decided_by={DecidedBy.CHECK: 1},
        properties={},
        possible=None,
        distinct=1,
        coverage="",
        seconds={},
    )


def failures_of(verdicts: Mapping[CrashState, tuple[Violation, ...]]) -> tuple[Failure, ...]:
    """One failure for each kind of violation, from verdicts in the order of exploration."""
    simplest: dict[Kind, tuple[CrashState, Violation]] = {}
    states: Counter[Kind] = Counter()
    for state, violations in verdicts.items():
        first_of_kind: dict[Kind, Violation] = {}
        for violation in violations:
            first_of_kind.setdefault(kind_of(violation), violation)
        states.update(first_of_kind.keys())
        for kind, violation in first_of_kind.items():
            known = simplest.setdefault(kind, (state, violation))
            if simplicity(state) < simplicity(known[0]):
                simplest[kind] = state, violation
    return tuple(
        Failure(state, violation, states[kind]) for kind, (state, violation) in simplest.items()
    )


def property_counts(
    verdicts: Iterable[tuple[Violation, ...]], properties: Iterable[Property]
) -> dict[Property, tuple[int, int]]:
    """Property -> (states checked, states that break it).

    Where nothing can be recovered, `recoverable` is the only property that was checked.
    """
    checked: Counter[Property] = Counter()
    broken: Counter[Property] = Counter()
    wanted = [*dict.fromkeys([Property.RECOVERABLE, *properties])]
    for violations in verdicts:
        found = {violation.property for violation in violations}
        broken.update(found)
        checked.update([Property.RECOVERABLE] if _unrecoverable(violations) else wanted)
    return {name: (checked[name], broken[name]) for name in Property if name in wanted}


def _unrecoverable(violations: tuple[Violation, ...]) -> bool:
    return any(violation.rule in UNRECOVERABLE_RULES for violation in violations)


UNRECOVERABLE_RULES = frozenset({"does-not-mount", "kernel-panic"})
"""Rules that mean that there was no tree to check anything else on."""


def in_order(decided: Mapping[int, tuple[CrashState, Verdict]]) -> list[tuple[CrashState, Verdict]]:
    """What was decided, by the states' places in the schedule."""
    return [decided[place] for place in sorted(decided)]

"""What recoveries that were cut come to, as results have it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from crashsim.campaigns.results import (
    DecidedBy,
    Finding,
    FirstCut,
    LogResult,
    NestedResult,
    PropertyResult,
    RecoveryResult,
    StatesResult,
    TornResult,
)
from crashsim.disk.state import CrashState
from crashsim.explore.cuts import POSSIBLE_LIMIT
from crashsim.explore.exploration import Exploration
from crashsim.explore.verdict import DecidedBy as How
from crashsim.oracles.protocol import Property

RECOVERY_FAILED = "recovery-failed"
"""The rule for a state that holds everything and in which the program's own recovery fails; its
bundle replays the first crash only."""
NESTED_PREFIX = "nested-"
"""What the names of findings of depth 2 begin with."""
NOTHING_SENT = LogResult(0, 0, 0, 0)
NOTHING_EXPLORED = StatesResult(0, 0, 0, DecidedBy())


def first_cut_result(state: CrashState, step: str) -> FirstCut:
    """A crash state of the first life in a result."""
    torn = [TornResult(each.write, list(each.kept_units)) for each in sorted(state.torn)]
    return FirstCut(state.cut, step, sorted(state.dropped), torn)


def told(finding: Finding, first: FirstCut, states: int) -> Finding:
    """A finding of depth 2 under a name of its own, with what came before it.

    :param states: how many nested states, or recoveries that failed, show its kind.
    """
    if finding.rule == RECOVERY_FAILED:
        return told_of_failure(finding, states)
    return told_of_second_cut(finding, first, states)


def told_of_failure(finding: Finding, recoveries: int) -> Finding:
    """A finding of a recovery that failed by itself; its cut is the one that it recovers from.

    :param recoveries: how many failed so.
    """
    sentence = "Everything promised held after the power cut; then the program's recovery failed."
    return msgspec.structs.replace(
        finding,
        id=f"{NESTED_PREFIX}{finding.id}",
        explanation=[sentence, *finding.explanation],
        states=recoveries,
    )


def told_of_second_cut(finding: Finding, first: FirstCut, states: int) -> Finding:
    """A finding of a nested state under a name of its own, with what came before it.

    :param states: how many nested states show its kind, over all recoveries.
    """
    where = f"event {first.cut}" + (f", in {first.step}" if first.step else "")
    lost = len(first.dropped) + len(first.torn)
    losses = f", which cost {lost} write{'s' if lost != 1 else ''}," if lost else ""
    sentence = (
        f"The recovery from a first power cut (at {where}){losses} was itself cut: "
        "everything promised held after the first."
    )
    return msgspec.structs.replace(
        finding,
        id=f"{NESTED_PREFIX}{finding.id}",
        explanation=[sentence, *finding.explanation],
        states=states,
        first_cut=first,
    )


def states_before(exploration: Exploration, end: int | None) -> int:
    """How many explored states were cut at or before a position; all where there is none."""
    states = {*exploration.verdicts, *exploration.inconclusive}
    return sum(end is None or state.cut <= end for state in states)


def states_result(exploration: Exploration) -> StatesResult:
    """What an exploration covered."""
    by = {how: exploration.decided_by.get(how, 0) for how in How}
    decided = DecidedBy(by[How.CHECK], by[How.SAME_IMAGE], by[How.SAME_READS], by[How.SAME_TREE])
    return StatesResult(
        possible=exploration.possible,
        distinct=exploration.distinct,
        explored=exploration.explored,
        decided_by=decided,
        coverage=exploration.coverage,
    )


def nested_result(
    each: Sequence[RecoveryResult],
    properties: Iterable[Mapping[Property, tuple[int, int]]],
    wanted: Sequence[Property],
    *,
    sound_states: int,
    inconclusive: int,
) -> NestedResult:
    """All recoveries together.

    :param properties: of each exploration: property -> (states checked, states that break it).
    :param wanted: the properties that were asked for.
    """
    recorded = [one for one in each if not one.inconclusive]
    checked: Counter[Property] = Counter()
    broken: Counter[Property] = Counter()
    for counts in properties:
        for name, (seen, violations) in counts.items():
            checked[name] += seen
            broken[name] += violations
    return NestedResult(
        sound_states=sound_states,
        recoveries=len(recorded),
        log=_sum_of_logs([one.log for one in recorded]),
        states=_sum_of_states([one.states for one in recorded]),
        mount_states=sum(one.mount_states for one in recorded),
        properties={
            name.value: PropertyResult(checked[name], broken[name])
            for name in wanted
            if name in checked
        },
        inconclusive=inconclusive,
        each=list(each),
    )


def _sum_of_logs(logs: Sequence[LogResult]) -> LogResult:
    return LogResult(
        sum(log.writes for log in logs),
        sum(log.flushes for log in logs),
        sum(log.bytes for log in logs),
        sum(log.marks for log in logs),
    )


def _sum_of_states(states: Sequence[StatesResult]) -> StatesResult:
    possible = [each.possible for each in states]
    total = sum(each for each in possible if each is not None)
    decided = [each.decided_by for each in states]
    return StatesResult(
        possible=None if None in possible or total > POSSIBLE_LIMIT else total,
        distinct=sum(each.distinct for each in states),
        explored=sum(each.explored for each in states),
        decided_by=DecidedBy(
            sum(each.check for each in decided),
            sum(each.same_image for each in decided),
            sum(each.same_reads for each in decided),
            sum(each.same_tree for each in decided),
        ),
    )

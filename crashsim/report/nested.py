"""What came of recoveries that were cut, in words."""

from crashsim.campaigns.results import FirstCut, NestedResult, RunResult
from crashsim.report.states import decided_words, possible_words
from crashsim.report.words import counted


def nested_facts(nested: NestedResult) -> list[tuple[str, str]]:
    """(name, words) lines: what was recovered again, and what was explored of it."""
    states, log = nested.states, nested.log
    recoveries = (
        f"{nested.recoveries:,} recorded, of {counted(nested.sound_states, 'sound crash state')}: "
        f"{counted(log.writes, 'write')}, {counted(log.flushes, 'flush', 'flushes')}"
    )
    changed = [one.pages_changed for one in nested.each if not one.inconclusive]
    if changed:
        recoveries += f"; each mount alone changed {min(changed):,} to {max(changed):,} pages"
    explored = (
        f"{counted(states.explored, 'state')} ({nested.mount_states:,} of the mount; "
        f"{possible_words(states)} possible, torn ones not counted), "
        f"{states.distinct:,} distinct images; {decided_words(states.decided_by)}; "
        f"{_violations(nested)}"
    )
    return [("recoveries", recoveries), ("cut again", explored)]


def _violations(nested: NestedResult) -> str:
    broken = [
        f"{name} {result.violations:,}"
        for name, result in nested.properties.items()
        if result.violations
    ]
    words = f"violated: {', '.join(broken)}" if broken else "no violation"
    if nested.inconclusive:
        words += f"; {nested.inconclusive:,} inconclusive"
    return words


def broken_names(run: RunResult) -> list[str]:
    """The properties that a state of either depth violates."""
    nested = {} if run.nested is None else run.nested.properties
    return [
        name
        for name in dict.fromkeys((*run.properties, *nested))
        if any(name in each and each[name].violations for each in (run.properties, nested))
    ]


def inconclusive_checks(run: RunResult) -> int:
    """Of both depths."""
    return run.inconclusive + (0 if run.nested is None else run.nested.inconclusive)


def first_cut_words(first: FirstCut) -> str:
    """`in the recovery from a cut at event 812, in commit-2, with 3 writes lost`."""
    step = f", in {first.step}" if first.step else ""
    lost = len(first.dropped) + len(first.torn)
    losses = f", with {counted(lost, 'write')} lost" if lost else ""
    return f"in the recovery from a cut at event {first.cut:,}{step}{losses}"

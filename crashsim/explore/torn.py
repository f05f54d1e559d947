"""Writes of which only a part reached the media."""

from collections.abc import Iterator
from random import Random

from crashsim.disk.state import CrashState, TornWrite
from crashsim.explore.timeline import Timeline

TORN_UNITS_LIMIT = 4096
"""Larger writes are not torn: naming the units of one would cost more than it tells."""


def unit_count(length_bytes: int, atomic_unit_bytes: int) -> int:
    """How many atomic units a write touches, counted from its first byte."""
    return -(-length_bytes // atomic_unit_bytes)


def torn_states(
    timeline: Timeline, cut: int, write: int, atomic_unit_bytes: int, random: Random
) -> Iterator[CrashState]:
    """States in which `write` is torn and every other write before `cut` is kept.

    Kept units: the first one; all but the last; every other; a random half. None at all for a
    write of a single unit, without a payload, or of more than `TORN_UNITS_LIMIT` units.
    """
    row = timeline.row(write)
    units = unit_count(int(timeline.length_bytes[row]), atomic_unit_bytes)
    if not timeline.tearable[row] or not 1 < units <= TORN_UNITS_LIMIT:
        return
    patterns = [(0,), tuple(range(units - 1)), tuple(range(0, units, 2)), tuple(range(1, units, 2))]
    some = tuple(unit for unit in range(units) if random.random() < 0.5)
    if 0 < len(some) < units:
        patterns.append(some)
    for kept_units in dict.fromkeys(patterns):
        yield CrashState(cut, torn=frozenset({TornWrite(write, kept_units)}))

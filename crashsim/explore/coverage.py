"""What was covered, in one sentence."""

from collections.abc import Collection, Iterable

from crashsim.disk.state import CrashState
from crashsim.explore.cuts import POSSIBLE_LIMIT


def coverage_sentence(
    states: Iterable[CrashState],
    possible: int | None,
    atomic_unit_bytes: int,
    exhausted: Collection[str] = (),
) -> str:
    """ "explored 300 of 12,288 distinct states, up to 7 dropped, torn at 512".

    Torn states are beyond the count of possible ones, so they are told apart.

    :param possible: `possible_states` of the log; None where there are more than 2**53.
    :param exhausted: names of the strategies of which no state is left.
    """
    whole = torn = dropped = 0
    for state in states:
        dropped = max(dropped, len(state.dropped))
        if state.torn:
            torn += 1
        else:
            whole += 1
    total = (
        f"more than {POSSIBLE_LIMIT:.0e}".replace("e+", "e")
        if possible is None
        else f"{possible:,}"
    )
    sentence = f"explored {whole:,} of {total} distinct states, up to {dropped:,} dropped"
    if torn:
        sentence += f", and {torn:,} torn at {atomic_unit_bytes}"
    if exhausted:
        sentence += f"; every state of: {', '.join(sorted(exhausted))}"
    return sentence

"""How many crash states there are, and how they were decided, in words."""

from crashsim.campaigns.results import DecidedBy, StatesResult


def possible_words(states: StatesResult) -> str:
    """How many are possible."""
    return "more than 2⁵³" if states.possible is None else f"{states.possible:,}"


def decided_words(decided: DecidedBy) -> str:
    """How many took a recovery, and how many each pruning spared."""
    return (
        f"recovery {decided.check:,} · same image {decided.same_image:,} · "
        f"same reads {decided.same_reads:,} · same tree {decided.same_tree:,}"
    )

"""The sequence of states, on logs that are too long for their budgets."""

import numpy as np
import pytest

from crashsim.disk.log import NEVER
from crashsim.disk.state import CrashState, TornWrite
from crashsim.explore.coverage import coverage_sentence
from crashsim.explore.cuts import meaningful_cuts, possible_states
from crashsim.explore.schedule import Schedule
from crashsim.explore.strategies import STRATEGIES, CutView, contiguous_groups
from crashsim.explore.timeline import Timeline


def long_timeline(epochs: int, writes_an_epoch: int, *, durable: bool = True) -> Timeline:
    """Writes of one page, in epochs ended by a flush and a promise.

    Each write takes two events, a submission and a completion; so does the flush; the promise one.
    """
    epoch_events = 2 * writes_an_epoch + 3
    write = np.arange(epochs * writes_an_epoch)
    epoch, place = write // writes_an_epoch, write % writes_an_epoch
    flushed = (epoch + 1) * epoch_events - 1
    return Timeline(
        writes=write + epoch,
        submitted_at=epoch * epoch_events + 2 * place,
        durable_from=flushed if durable else np.full(len(write), NEVER),
        offset_bytes=4096 * (write // 2 * 10 + write % 2),
        length_bytes=np.full(len(write), 4096),
        tearable=np.ones(len(write), np.bool_),
        promise_positions=np.arange(1, epochs + 1) * epoch_events - 1,
        promises=[f"epoch {number}" for number in range(epochs)],
        start=0,
        end=epochs * epoch_events,
    )


def scheduled(
    timeline: Timeline, limit: int | None, seed: int = 0
) -> tuple[Schedule, list[CrashState]]:
    schedule = Schedule(timeline, meaningful_cuts(timeline), 512, seed, limit)
    return schedule, list(schedule)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_small_budget_is_spread_over_a_long_log_and_all_strategies(seed: int) -> None:
    timeline = long_timeline(2000, 12)
    schedule, states = scheduled(timeline, 300, seed)
    assert len(states) == 300
    tenths, _ = np.histogram([state.cut for state in states], 10, (0, timeline.end))
    assert tenths.min() >= 15, "every tenth of the log gets at least half of its share"
    assert set(schedule.given) == {strategy.name for strategy in STRATEGIES}
    assert not schedule.exhausted


def test_a_short_part_to_dwell_on_gets_half_of_the_states() -> None:
    timeline = long_timeline(2000, 12)
    cuts = meaningful_cuts(timeline)
    states = list(Schedule(timeline, cuts, 512, 0, 300, early_end=500))
    early = sum(state.cut <= 500 for state in states)
    assert 120 <= early <= 180
    tenths, _ = np.histogram([state.cut for state in states], 10, (0, timeline.end))
    assert tenths[1:].min() >= 7, "the rest is spread over all the rest"


def test_other_seeds_sample_other_states() -> None:
    timeline = long_timeline(500, 6)
    one, other = set(scheduled(timeline, 200, 1)[1]), set(scheduled(timeline, 200, 2)[1])
    assert len(one & other) < 50


def test_all_exhausts_every_bounded_strategy() -> None:
    schedule, states = scheduled(long_timeline(3, 4), None)
    bounded = {strategy.name for strategy in STRATEGIES if strategy.bounded}
    assert schedule.exhausted == bounded
    whole = [state for state in states if not state.torn]
    assert len(whole) == possible_states(long_timeline(3, 4))


def test_a_sampler_ends_when_it_has_seen_what_there_is() -> None:
    _, states = scheduled(long_timeline(2, 3), 100_000)
    assert len(states) < 1000


def test_possible_states_beyond_doubles_are_not_counted() -> None:
    assert possible_states(long_timeline(1, 52)) == 2**52 + 1
    assert possible_states(long_timeline(1, 53)) is None, "2**53 + 1"
    assert possible_states(long_timeline(300, 12, durable=False)) is None


def test_the_pending_set_at_a_cut_costs_its_own_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever came before, only the window of writes that may be pending is looked at."""
    timeline = long_timeline(5000, 8)
    looked_at: list[int] = []
    flatnonzero = np.flatnonzero

    def counting(array: np.ndarray) -> np.ndarray:
        looked_at.append(len(array))
        return flatnonzero(array)

    monkeypatch.setattr(np, "flatnonzero", counting)
    for cut in meaningful_cuts(timeline).positions[-50:].tolist():
        timeline.pending_rows(cut)
    assert max(looked_at) <= 8


def test_contiguous_groups_are_writes_that_touch() -> None:
    timeline = long_timeline(1, 5)
    offsets = np.array([0, 8192, 4096, 40960, 45056])
    object.__setattr__(timeline, "offset_bytes", offsets)
    assert contiguous_groups(CutView(timeline, timeline.end - 4, 512)) == [(0, 1, 2), (3, 4)]


def test_coverage_is_told_in_one_sentence() -> None:
    states = [
        CrashState(5),
        CrashState(5, frozenset({1, 2, 3})),
        CrashState(5, torn=frozenset({TornWrite(1, (0,))})),
    ]
    assert coverage_sentence(states, 12288, 512) == (
        "explored 2 of 12,288 distinct states, up to 3 dropped, and 1 torn at 512"
    )
    assert coverage_sentence(states[:2], None, 512, {"prefix", "pair"}) == (
        "explored 2 of more than 9e15 distinct states, up to 3 dropped; "
        "every state of: pair, prefix"
    )

"""Which states are explored, against brute force over random request histories."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from crashsim.disk.image import ImageIndex
from crashsim.disk.profile import PROFILES, DeviceProfile
from crashsim.disk.request import PAGE_BYTES
from crashsim.disk.state import CrashState
from crashsim.explore.cuts import meaningful_cuts, possible_states
from crashsim.explore.schedule import Schedule
from crashsim.explore.timeline import Timeline
from crashsim.workloads.marks import START
from tests.support.disk_histories import DISK_BYTES, History, Mark, histories, states

PROFILE = PROFILES["default"]
profiles = st.sampled_from([*PROFILES.values()])


@st.composite
def started_histories(draw: st.DrawFn) -> History:
    """A history with a start mark somewhere, or none at all."""
    history = draw(histories(maximum_events=24))
    if draw(st.booleans()):
        place = draw(st.integers(0, len(history.events)))
        history.events.insert(place, Mark(START))
    return history


@contextmanager
def recorded(
    history: History, profile: DeviceProfile = PROFILE
) -> Iterator[tuple[ImageIndex, Timeline]]:
    with tempfile.TemporaryDirectory() as directory, history.record(Path(directory)) as log:
        yield ImageIndex(log, profile), Timeline.of(log, profile)


def promises_before(history: History, cut: int) -> int:
    return sum(isinstance(event, Mark) and event.text != START for event in history.events[:cut])


def subsets(items: list[int]) -> Iterator[tuple[int, ...]]:
    for size in range(len(items) + 1):
        yield from combinations(items, size)


def all_states(history: History, start: int, limit: int = 6) -> list[CrashState] | None:
    """Every legal state without torn writes; None where they are too many to list."""
    found = []
    for cut in range(start, len(history.events) + 1):
        pending = history.pending(cut)
        if len(pending) > limit:
            return None
        found += [CrashState.make(cut, dropped) for dropped in subsets(pending)]
    return found


def kept(history: History, state: CrashState) -> tuple[frozenset[int], int]:
    """What tells two states apart: the writes that reached the media, and what was promised."""
    submitted = [
        number
        for number, request in enumerate(history.requests)
        if request.changes_media and history.submitted_at(number) < state.cut
    ]
    return frozenset(submitted) - state.dropped, promises_before(history, state.cut)


@settings(deadline=None)
@given(started_histories(), profiles)
def test_pending_writes_and_promises(history: History, profile: DeviceProfile) -> None:
    with recorded(history, profile) as (_, timeline):
        for cut in range(timeline.start, timeline.end + 1):
            expected = history.pending(cut, profile.volatile_cache)
            assert timeline.pending(cut).tolist() == expected
            assert timeline.promise_count(cut) == promises_before(history, cut)
            for number, request in enumerate(history.requests):
                if request.changes_media:
                    assert timeline.is_pending(number, cut) == (number in expected)


@settings(deadline=None)
@given(started_histories(), profiles, st.integers(0, 3), st.one_of(st.none(), st.integers(0, 150)))
def test_scheduled_states_are_legal_and_different(
    history: History, profile: DeviceProfile, seed: int, limit: int | None
) -> None:
    with recorded(history, profile) as (index, timeline):
        cuts = meaningful_cuts(timeline, lambda cut: index.identity(CrashState(cut)))
        schedule = Schedule(timeline, cuts, profile.atomic_unit_bytes, seed, limit)
        found = list(schedule)
        for state in found:
            index.check_legal(state)
            assert state.cut >= timeline.start
        assert len(set(found)) == len(found)
        assert schedule.finished
        assert limit is None or len(found) <= limit


@settings(deadline=None)
@given(started_histories(), st.integers(0, 3))
def test_a_smaller_budget_explores_the_beginning_of_a_larger_one(
    history: History, seed: int
) -> None:
    with recorded(history) as (_, timeline):
        cuts = meaningful_cuts(timeline)
        large = list(Schedule(timeline, cuts, 512, seed, 90))
        small = list(Schedule(timeline, cuts, 512, seed, 30))
        assert large[:30] == small


@settings(deadline=None)
@given(st.data(), started_histories())
def test_canonical_states_are_the_same_states(data: st.DataObject, history: History) -> None:
    with recorded(history) as (index, timeline):
        state = data.draw(states(history))
        if state.cut < timeline.start:
            return
        canonical = timeline.canonical(state)
        index.check_legal(canonical)
        assert timeline.start <= canonical.cut <= state.cut
        assert history.image(canonical, 512) == history.image(state, 512)
        assert kept(history, canonical) == kept(history, state)
        assert timeline.canonical(canonical) == canonical


@settings(deadline=None)
@given(started_histories())
def test_meaningful_cuts_miss_no_image_under_any_promises(history: History) -> None:
    with recorded(history) as (index, timeline):
        everything = all_states(history, timeline.start)
        if everything is None:
            return

        def seen(some: list[CrashState]) -> set[tuple[bytes, int]]:
            return {
                (history.image(state, 512), promises_before(history, state.cut)) for state in some
            }

        plain = set(meaningful_cuts(timeline).positions.tolist())
        merged = meaningful_cuts(timeline, lambda cut: index.identity(CrashState(cut)))
        assert set(merged.positions.tolist()) <= plain
        for positions in (plain, set(merged.positions.tolist())):
            assert seen([state for state in everything if state.cut in positions]) == seen(
                everything
            )


@settings(deadline=None)
@given(started_histories())
def test_possible_states_are_counted_and_all_of_them_scheduled(history: History) -> None:
    with recorded(history) as (_, timeline):
        everything = all_states(history, timeline.start)
        if everything is None:
            return
        different = {kept(history, state) for state in everything}
        assert possible_states(timeline) == len(different)
        found = Schedule(timeline, meaningful_cuts(timeline), 512, 0, None)
        assert {kept(history, state) for state in found if not state.torn} == different


@settings(deadline=None)
@given(started_histories())
def test_peaks_are_where_the_pending_set_shrinks_next(history: History) -> None:
    with recorded(history) as (_, timeline):
        cuts = meaningful_cuts(timeline)
        for index, cut in enumerate(cuts.positions.tolist()):
            following = [*cuts.positions.tolist(), timeline.end][index + 1]
            here = set(history.pending(cut))
            shrinks = bool(here - set(history.pending(following)))
            assert bool(cuts.peaks[index]) == (shrinks or index == len(cuts) - 1)


@settings(deadline=None)
@given(started_histories())
def test_pages_that_differ_are_all_that_can(history: History) -> None:
    with recorded(history) as (_, timeline):
        everything = all_states(history, timeline.start)
        if everything is None:
            return
        images = np.array(
            [np.frombuffer(history.image(state, 512), np.uint8) for state in everything]
        )
        expected = np.flatnonzero((images != images[0]).any(axis=0)) // PAGE_BYTES
        found = timeline.pages_that_differ(np.arange(DISK_BYTES // PAGE_BYTES))
        assert set(expected.tolist()) <= set(found)

"""Which crash states are recovered again."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from crashsim.disk.state import CrashState
from crashsim.explore.exploration import Exploration, exploration_of, failures_of
from crashsim.explore.nesting import PROBES, choose, groups_of, sound_states
from crashsim.explore.timeline import Timeline
from crashsim.oracles.protocol import Property, Violation
from tests.support.toy_exploring import Toy
from tests.support.toy_store import Put

LOST = Violation(Property.DURABLE, "lost", "", "it is gone")


def explored(
    verdicts: Mapping[CrashState, tuple[Violation, ...]],
    inconclusive: Mapping[CrashState, str] | None = None,
) -> Exploration:
    return Exploration(
        verdicts=verdicts,
        inconclusive=inconclusive or {},
        failures=failures_of(verdicts),
        decided_by={},
        properties={},
        possible=None,
        distinct=0,
        coverage="",
        seconds={},
    )


@pytest.fixture
def timeline(tmp_path: Path) -> Timeline:
    with Toy.record(tmp_path / "log", [Put(0, 1, True), Put(1, 1, True)]) as toy:
        assert len(toy.timeline.promises) >= 2
        return toy.timeline


def after_promise(timeline: Timeline, number: int) -> CrashState:
    return CrashState(int(timeline.promise_positions[number]) + 1)


def test_only_states_that_hold_everything_are_sound(timeline: Timeline) -> None:
    cut = timeline.start
    sound, lossy, open_question = CrashState(cut), CrashState(cut + 1), CrashState(cut + 2)
    exploration = explored(
        {lossy: (LOST,), sound: (), open_question: ()}, {open_question: "it hung"}
    )

    assert sound_states(exploration, timeline, lambda state: state.cut) == [sound]


def test_each_disk_is_there_once_under_the_most_that_was_promised(timeline: Timeline) -> None:
    early, late = after_promise(timeline, 0), after_promise(timeline, 1)
    other = CrashState(timeline.start)

    found = sound_states(
        explored({early: (), late: (), other: ()}),
        timeline,
        lambda state: 1 if state in (early, late) else 2,
    )

    assert found == [other, late]


def test_a_state_alone_can_be_an_exploration() -> None:
    exploration = exploration_of(CrashState(7), (LOST,))

    assert exploration.explored == 1
    assert exploration.failures[0].violation == LOST


@pytest.mark.parametrize(("states", "count"), [(0, 3), (1, 3), (3, 3), (10, 3), (11, 4)])
def test_groups_are_neighbours_and_hold_every_state_once(states: int, count: int) -> None:
    every = [CrashState(cut) for cut in range(states)]

    groups = groups_of(every, count, seed=5)

    assert len(groups) == min(states, count)
    assert [sorted(group, key=lambda state: state.cut) for group in groups] == [
        every[group_start : group_start + len(group)]
        for group, group_start in zip(
            groups, (sum(map(len, groups[:at])) for at in range(len(groups))), strict=True
        )
    ]
    sizes = [len(group) for group in groups] or [0]
    assert max(sizes) - min(sizes) <= 1


def test_the_seed_says_which_states_of_a_group_are_looked_at() -> None:
    every = [CrashState(cut) for cut in range(100)]

    assert groups_of(every, 4, 1) == groups_of(every, 4, 1)
    assert groups_of(every, 4, 1) != groups_of(every, 4, 2)


def test_the_recovery_that_changes_most_is_chosen_and_few_are_tried() -> None:
    probed: list[CrashState] = []

    def probe(state: CrashState) -> int:
        probed.append(state)
        return {4: 9, 2: 9}.get(state.cut, 1)

    group = [CrashState(cut) for cut in (2, 4, 6, 8, 10)]
    chosen = list(choose([group], probe, 0))

    assert [(one.state.cut, one.pages_changed) for one in chosen] == [(4, 9)]
    assert probed == group[:PROBES]


def test_a_group_of_recoveries_that_change_nothing_is_left_out() -> None:
    groups = [[CrashState(1)], [CrashState(2)]]

    def probe(state: CrashState) -> int:
        return state.cut - 1

    assert [one.state.cut for one in choose(groups, probe, 1)] == [2]
    assert [one.state.cut for one in choose(groups, probe, 0)] == [1, 2]

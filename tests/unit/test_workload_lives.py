"""What one of many lives does: repeatable, always new, and bounded."""

import pytest

from crashsim.workloads.git import git_workload
from crashsim.workloads.impl import impl_workload
from crashsim.workloads.lives import (
    KINDS,
    RENEWAL,
    SEQUENCES,
    NoSuchLife,
    kinds_of,
    life_steps,
    life_workload,
)

LIVES = range(1, 201)


def test_a_life_follows_from_its_seed_and_number() -> None:
    kinds = kinds_of("default", 7, 3)
    assert kinds == kinds_of("default", 7, 3)
    assert life_steps(kinds, 7, 3) == life_steps(kinds, 7, 3)
    assert len({kinds_of("default", 7, number) for number in LIVES}) > 100


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_two_hundred_lives_do_all_that_there_is(sequence: str) -> None:
    done = {kind for number in LIVES for kind in kinds_of(sequence, 0, number)}
    unsynced = {"stash", "stash-pop", "switch", "delete-branch"}
    renewal = {"renew", "forget", "gc"}
    assert done == {*KINDS, *renewal} - (unsynced if sequence == "synced" else set())


def test_names_of_steps_are_unique_in_a_life() -> None:
    for number in LIVES:
        names = [step.name for step in life_steps(kinds_of("default", 0, number), 0, number)]
        assert len(set(names)) == len(names) > 0


def test_no_content_comes_twice_in_all_lives() -> None:
    template = git_workload()
    seen: set[bytes] = set()
    for number in LIVES:
        steps = life_steps(kinds_of("default", 0, number), 0, number)
        workload = life_workload(template, "default", steps, 0, number)
        contents = [each for files in workload.staged.values() for each in files.values()]
        assert seen.isdisjoint(contents)
        assert len(set(contents)) == len(contents)
        seen.update(contents)
    assert len(seen) > 1000


def test_history_begins_anew_now_and_then() -> None:
    renewing = [number for number in LIVES if "renew" in kinds_of("default", 0, number)]
    assert renewing == list(range(RENEWAL, 201, RENEWAL))


def test_a_life_can_end_with_any_kind_of_step() -> None:
    for number in (1, 2, 3, RENEWAL):
        for kind in KINDS:
            kinds = kinds_of("default", 0, number, kind)
            assert kinds[-1] == kind
            assert kinds.count(kind) == 1
            if kind == "stash-pop":
                assert kinds[-2] == "stash"


@pytest.mark.parametrize(
    ("sequence", "kind"), [("none", ""), ("default", "fly"), ("synced", "stash")]
)
def test_what_no_life_has_is_refused(sequence: str, kind: str) -> None:
    with pytest.raises(NoSuchLife):
        kinds_of(sequence, 0, 1, kind)


def test_the_store_takes_the_same_steps_as_git() -> None:
    steps = life_steps(kinds_of("default", 0, 1), 0, 1)
    git = life_workload(git_workload(), "default", steps, 0, 1)
    store = life_workload(impl_workload(), "default", steps, 0, 1)
    assert [step.name for step in git.steps] == [step.name for step in store.steps]
    assert git.staged == store.staged
    for one, other in zip(git.steps, store.steps, strict=True):
        assert other.argv[-1].endswith(one.argv[-1])
        assert other.argv != one.argv


def test_the_synced_sequence_keeps_no_reflogs() -> None:
    steps = life_steps(kinds_of("synced", 0, 1), 0, 1)
    synced = life_workload(git_workload(), "synced", steps, 0, 1)
    assert synced.environment["GIT_CONFIG_KEY_0"] == "core.logAllRefUpdates"
    assert (
        "GIT_CONFIG_COUNT" not in life_workload(git_workload(), "default", steps, 0, 1).environment
    )

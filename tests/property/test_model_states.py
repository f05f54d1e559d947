"""Laws that hold for the crash states of any run, under any persistence model."""

from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crashsim.model.models import MODELS
from crashsim.model.operations import Log, Promise, Scope, Sync
from crashsim.model.persistence import Model
from crashsim.model.simulated import Simulated
from crashsim.model.states import allows, crash_states
from crashsim.model.tree import Directory, digest_of
from tests.support.model_histories import BASE, Step, machine_after, steps, take
from tests.support.model_ideals import INTENDED

ALL = list(MODELS)
WAYS_LIMIT = 3000

models = st.sampled_from(list(MODELS.values()))
intended = st.sampled_from(list(INTENDED.values()))
histories = st.lists(steps, min_size=1, max_size=8)
short_histories = st.lists(steps, min_size=1, max_size=5)


def trees_by_promises(log: Log, model: Model) -> dict[int, set[int]]:
    found: dict[int, set[int]] = defaultdict(set)
    for state in crash_states(log, model):
        found[len(state.promises)].add(state.digest)
    return found


@settings(max_examples=150, deadline=None)
@given(histories, models)
def test_what_programs_saw_is_a_crash_state(sequence: list[Step], model: Model) -> None:
    """Everything may reach the disk in time: the tree before each operation is a crash state."""
    machine = Simulated(BASE)
    seen: list[tuple[int, int]] = []
    for step in sequence:
        take(machine, step)
        promises = sum(step[0] == "promise" for step in sequence[: len(seen) + 1])
        seen.append((promises, machine.tree().digest))
    states = crash_states(machine.log, model)
    if states.possible <= WAYS_LIMIT:
        assert {(len(each.promises), each.digest) for each in states} >= set(seen)


@settings(max_examples=100, deadline=None)
@given(histories, models)
def test_after_syncfs_nothing_can_be_lost(sequence: list[Step], model: Model) -> None:
    machine = machine_after([*sequence, ("syncfs",)])
    since = machine.operations[-1].number + 1
    states = list(crash_states(machine.log, model, since=since))
    assert [state.digest for state in states] == [machine.tree().digest]
    assert states[0].lost == ()


@settings(max_examples=150, deadline=None)
@given(histories, models)
def test_states_are_what_they_say(sequence: list[Step], model: Model) -> None:
    """Digests are those of the trees, each state is distinct, allowed, and boots as it is."""
    machine = machine_after(sequence)
    states = crash_states(machine.log, model, limit=60, seed=1)
    seen = set()
    for state in states:
        tree = state.tree
        assert tree.digest == state.digest == digest_of(tree)
        assert (len(state.promises), state.digest) not in seen
        seen.add((len(state.promises), state.digest))
        for path in tree:
            above = path.rpartition("/")[0]
            assert not above or isinstance(tree[above], Directory)
        booted = Simulated(tree)
        assert booted.tree() == tree
        assert dict(booted.tree()) == dict(tree)
        numbers = [operation.number for operation in machine.operations]
        assert all(lost.number in numbers and lost.number < state.cut for lost in state.lost)
    assert states.distinct == len(seen) <= states.explored
    assert all(allows(machine.log, model, state.tree) for state in states)


@settings(max_examples=100, deadline=None)
@given(short_histories, st.sampled_from([name for name in ALL if name != "posix"]))
def test_posix_allows_what_any_filesystem_may_do(sequence: list[Step], name: str) -> None:
    log = machine_after(sequence).log
    states = crash_states(log, INTENDED[name])
    if states.possible <= WAYS_LIMIT:
        trees = {state.digest: state.tree for state in states}
        assert all(allows(log, MODELS["posix"], tree) for tree in trees.values())


@pytest.mark.parametrize(
    ("stronger", "weaker"),
    [("ext4-ordered", "ext4-writeback"), ("xfs", "ext4-writeback"), ("xfs", "apfs")],
)
@settings(max_examples=80, deadline=None)
@given(histories)
def test_an_ordered_filesystem_leaves_no_more_than_an_unordered_one(
    stronger: str, weaker: str, sequence: list[Step]
) -> None:
    log = machine_after(sequence).log
    if crash_states(log, MODELS[weaker]).possible <= WAYS_LIMIT:
        strong = trees_by_promises(log, MODELS[stronger])
        weak = trees_by_promises(log, MODELS[weaker])
        assert all(trees <= weak[count] for count, trees in strong.items())


@settings(max_examples=100, deadline=None)
@given(histories)
def test_a_defect_of_a_kernel_takes_no_crash_state_away(sequence: list[Step]) -> None:
    log = machine_after(sequence).log
    if crash_states(log, MODELS["f2fs"]).possible <= WAYS_LIMIT:
        meant, real = (trees_by_promises(log, each["f2fs"]) for each in (INTENDED, MODELS))
        assert all(trees <= real[count] for count, trees in meant.items())


@settings(max_examples=100, deadline=None)
@given(histories, st.sampled_from(["posix", "ext4-ordered", "ext4-writeback", "xfs"]), st.data())
def test_a_sync_less_loses_nothing_less(
    sequence: list[Step], name: str, data: st.DataObject
) -> None:
    log = machine_after(sequence).log
    if not log.syncs:
        return
    sync = data.draw(st.sampled_from(log.syncs))
    without = log.without([sync.number])
    if crash_states(without, MODELS[name]).possible <= WAYS_LIMIT:
        less, more = (trees_by_promises(each, MODELS[name]) for each in (log, without))
        assert all(trees <= more[count] for count, trees in less.items())


@settings(max_examples=150, deadline=None)
@given(histories, intended)
def test_what_was_fsynced_is_whole_wherever_it_has_a_name(
    sequence: list[Step], model: Model
) -> None:
    machine = machine_after(sequence)
    synced = {
        sync.inode: sync.number
        for sync in machine.log.syncs
        if sync.scope is Scope.FILE and not sync.is_directory
    }
    touched = {
        change.inode: change.number
        for change in machine.operations
        if not isinstance(change, Promise | Sync)
    }
    whole = {
        inode: bytes(machine.inodes[inode].content or b"")
        for inode, number in synced.items()
        if touched.get(inode, -1) < number and inode in machine.inodes
    }
    since = max(synced.values(), default=0) + 1
    for state in crash_states(machine.log, model, limit=200, since=since):
        for path, inode in state.tree.inodes.items():
            if inode in whole:
                assert state.tree.content(path) == whole[inode]


@settings(max_examples=60, deadline=None)
@given(histories, models, st.integers(0, 3))
def test_a_sample_is_part_of_the_whole_and_the_seed_says_which(
    sequence: list[Step], model: Model, seed: int
) -> None:
    log = machine_after(sequence).log
    every = crash_states(log, model)
    if every.possible > WAYS_LIMIT:
        return
    whole = {(len(each.promises), each.digest) for each in every}
    sample, again = (
        [(len(each.promises), each.digest) for each in crash_states(log, model, limit=9, seed=seed)]
        for _ in range(2)
    )
    assert sample == again
    assert whole.issuperset(sample)
    if every.possible > 9:
        assert len(sample) == min(9, len(whole))

"""Deciding logs: counts, memory, descriptions, logs with syncs left out."""

import os

import pytest

from crashsim.model.bench import DamagedObjects, measure_model, stored_objects, text
from crashsim.model.contents import Loss, Lost
from crashsim.model.decide import Remembered, decide
from crashsim.model.models import MODELS, UnknownModel, model_named
from crashsim.model.simulated import Simulated
from crashsim.model.states import allows, crash_states
from crashsim.model.tree import File, Tree
from tests.support.model_calls import NEW, append, put, sync


def published(*, fsync: bool) -> Simulated:
    machine = Simulated(Tree.of({"f": b"old"}))
    put(machine, "tmp", fsync=fsync)
    machine.rename("tmp", "f")
    machine.promise("f is new")
    return machine


def is_whole(tree: Tree, promises: tuple[object, ...]) -> str | None:
    content = tree.content("f")
    return None if content in (b"old", NEW) else f"f has {content!r}"


def test_a_counterexample_says_which_operations_were_lost() -> None:
    machine = published(fsync=False)
    decision = decide(crash_states(machine.log, MODELS["xfs"]), Remembered(is_whole))
    simplest = decision.simplest
    assert simplest is not None
    assert simplest.problem == "f has b''"
    assert simplest.state.lost == (Lost(1, Loss.ALL),)
    assert simplest.state.cut == 3
    assert simplest.state.describe() == (
        "power cut before operation 3\n  1: write 11 bytes at 0 of tmp: lost"
    )


def test_nothing_is_found_where_nothing_is_wrong() -> None:
    for model in MODELS.values():
        decision = decide(crash_states(published(fsync=True).log, model), Remembered(is_whole))
        assert decision.failures == ()
        assert decision.simplest is None


def test_a_log_without_its_sync_is_that_of_the_program_without_it() -> None:
    with_sync, without = published(fsync=True).log, published(fsync=False).log
    for model in MODELS.values():
        left_out = with_sync.without([with_sync.syncs[0].number])
        assert {s.digest for s in crash_states(left_out, model)} == {
            s.digest for s in crash_states(without, model)
        }


def test_only_syncs_can_be_left_out() -> None:
    with pytest.raises(ValueError, match=r"operation 1 \(write 11 bytes at 0 of tmp\) is no sync"):
        published(fsync=True).log.without([1])


def test_a_check_is_asked_once_about_equal_trees() -> None:
    asked = []

    def check(tree: Tree, promises: tuple[object, ...]) -> str | None:
        asked.append((tree.digest, promises))
        return None

    remembered = Remembered(check)
    log = published(fsync=False).log
    for model in MODELS.values():
        decide(crash_states(log, model), remembered)
    assert len(asked) == len(set(asked)) == remembered.checked


def test_the_search_ends_with_the_failures_that_were_asked_for() -> None:
    states = crash_states(published(fsync=False).log, MODELS["xfs"])
    decision = decide(states, Remembered(is_whole), failures_limit=1)
    assert len(decision.failures) == 1
    assert decision.explored < decision.possible


def test_counts_of_a_small_log() -> None:
    """A created file with one write: not there, empty, zeros, whole."""
    machine = Simulated()
    put(machine, "f")
    states = crash_states(machine.log, MODELS["ext4-ordered"])
    assert len(list(states)) == 4
    assert (states.possible, states.explored, states.distinct) == (4, 4, 4)


def test_an_append_that_is_torn_is_described() -> None:
    machine = Simulated(Tree.of({"f": b"o" * 512}))
    append(machine, "f", b"n" * 1024)
    states = {s.tree.content("f"): s for s in crash_states(machine.log, MODELS["f2fs"])}
    torn = states[b"o" * 512 + b"n" * 512 + bytes(512)]
    assert torn.lost == (Lost(0, Loss.PART),)
    zeros = states[b"o" * 512 + bytes(1024)]
    assert zeros.lost == (Lost(0, Loss.DATA),)


def test_cuts_before_a_number_can_be_left_out() -> None:
    machine = published(fsync=True)
    since = machine.operations[-1].number + 1
    states = list(crash_states(machine.log, MODELS["xfs"], since=since))
    assert all(state.promises == ("f is new",) for state in states)


def test_recovery_goes_on_from_a_crash_state() -> None:
    machine = published(fsync=False)
    state = next(s for s in crash_states(machine.log, MODELS["xfs"]) if s.tree.content("f") == b"")
    second = Simulated(state.tree)
    append(second, "f", b"again")
    sync(second, "f")
    since = second.operations[-1].number + 1
    found = [s.tree.content("f") for s in crash_states(second.log, MODELS["xfs"], since=since)]
    assert found == [b"again"]


def test_a_model_allows_its_states_and_no_others() -> None:
    log = published(fsync=False).log
    assert allows(log, MODELS["xfs"], Tree.of({"f": b""}))
    assert not allows(log, MODELS["xfs"], Tree.of({"f": bytes(len(NEW))}))
    assert not allows(log, MODELS["xfs"], Tree.of({"f": NEW, "other": b""}))
    assert not allows(log, MODELS["xfs"], Tree.of({"f": File(NEW, 0o600)}))
    assert allows(log, MODELS["f2fs"], Tree.of({"f": bytes(len(NEW))}))


def test_every_unit_can_be_torn_if_asked_for() -> None:
    machine = Simulated(Tree.of({"f": b"o" * 2048}))
    descriptor = machine.open("f", os.O_WRONLY)
    machine.write(descriptor, b"n" * 2048)
    ext4 = MODELS["ext4-ordered"]
    assert len(list(crash_states(machine.log, ext4))) == 4
    assert len(list(crash_states(machine.log, ext4, pieces=None))) == 16


def test_an_unknown_model_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(UnknownModel, match="ext4-ordered"):
        model_named("ext3")


def test_the_benchmark_decides_what_it_says() -> None:
    log = stored_objects()
    figure = measure_model(log, MODELS["ext4-ordered"], 300)
    assert (figure.distinct, figure.possible > 10_000) == (300, True)
    assert 0 < figure.broken < figure.distinct
    assert figure.decided_per_second > 0
    assert DamagedObjects()(log.base, ()) is None
    assert [line.split()[0] for line in text(iter([figure]))] == ["model", "ext4-ordered"]


def test_data_behind_the_recorded_size_is_lost_with_it() -> None:
    found = [s for s in crash_states(published(fsync=False).log, MODELS["posix"]) if s.promises]
    losses = {
        s.tree.content("f"): s.lost for s in found if s.tree.content("f") and "tmp" not in s.tree
    }
    empty = [s.lost for s in found if s.tree.content("f") == b""]
    assert empty == [(Lost(1, Loss.ALL),)]
    assert losses[bytes(len(NEW))] == (Lost(1, Loss.DATA),)
    assert losses[NEW] == ()


def test_a_cut_is_behind_the_promises_made_and_the_syncs_returned() -> None:
    log = published(fsync=True).log
    sync, promise = log.syncs[0].number, log.operations[-1].number
    found = list(crash_states(log, MODELS["posix"]))
    assert {s.cut for s in found if s.promises} == {promise + 1}
    later = crash_states(log, MODELS["posix"], since=sync + 1)
    assert min(s.cut for s in later) == sync + 1
    assert all(s.cut > promise or not s.promises for s in found)
    unsynced = [s for s in found if s.tree.content("tmp") == b""]
    assert {s.cut for s in unsynced} == {1}


def test_half_of_a_rename_is_described() -> None:
    machine = Simulated(Tree.of({"a/f": NEW, "b/keep": b""}))
    machine.rename("a/f", "b/f")
    found = {tuple(sorted(s.tree)): s.lost for s in crash_states(machine.log, MODELS["posix"])}
    assert found["a", "a/f", "b", "b/f", "b/keep"] == (Lost(0, Loss.PART),)
    assert found["a", "b", "b/keep"] == (Lost(0, Loss.PART),)
    assert found["a", "b", "b/f", "b/keep"] == ()
    assert found["a", "a/f", "b", "b/keep"] == ()


def test_what_was_cut_off_again_is_not_missed() -> None:
    machine = Simulated(Tree.of({"f": b"old"}))
    append(machine, "f", b" and new")
    descriptor = machine.open("f", os.O_WRONLY)
    machine.truncate(descriptor, 5)
    machine.truncate(descriptor, 3)
    machine.promise("as before")
    found = {s.tree.content("f"): s for s in crash_states(machine.log, MODELS["xfs"]) if s.promises}
    assert found[b"old"].lost == ()


def test_the_simplest_failure_loses_least() -> None:
    machine = published(fsync=False)
    put(machine, "other")
    decision = decide(crash_states(machine.log, MODELS["posix"]), Remembered(is_whole))
    losses = [len(failure.state.lost) for failure in decision.failures]
    assert decision.simplest is not None
    assert len(decision.simplest.state.lost) == min(losses) < max(losses)


@pytest.mark.parametrize("model", ["posix", "xfs"])
def test_a_truncation_that_survived_is_not_missed(model: str) -> None:
    machine = Simulated(Tree.of({"f": b"old content"}))
    machine.truncate(machine.open("f", os.O_WRONLY), 3)
    found = {s.tree.content("f"): s.lost for s in crash_states(machine.log, MODELS[model])}
    assert found[b"old"] == ()
    assert found[b"old" + bytes(8)] == (Lost(0, Loss.PART),)

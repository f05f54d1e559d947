"""Promises against what is there: which values are legal, lost, or unknown."""

import msgspec
import pytest

from crashsim.oracles.git.history import Unreadable, compare, expect
from crashsim.oracles.git.snapshot import GitPromise, GitSnapshot

A, B, C, D = ("a" * 40, "b" * 40, "c" * 40, "d" * 40)
MAIN = "ref: refs/heads/main"
ENTRY = [f"{number:012x}" for number in range(8)]
FIRST = GitSnapshot(
    head=MAIN,
    refs={"refs/heads/main": A},
    index="i1",
    reflogs={"HEAD": ENTRY[0]},
    settings={"core.bare": "false"},
)


def change(state: GitSnapshot, **fields: object) -> GitSnapshot:
    return msgspec.structs.replace(state, **fields)


def rules(
    found: GitSnapshot,
    promised: list[GitSnapshot],
    under_way: GitPromise | GitSnapshot | None = None,
    **unreadable: object,
) -> set[str]:
    """What `found` breaks after all of `promised`, `under_way` being next."""
    history = [GitPromise("step", state) for state in promised]
    if isinstance(under_way, GitSnapshot):
        under_way = GitPromise("next", under_way)
    expected = expect(history + ([under_way] if under_way else []), len(history))
    assert expected is not None
    return {one.rule for one in compare(found, Unreadable(**unreadable), expected)}  # type: ignore[arg-type]


SECOND = change(
    FIRST, refs={"refs/heads/main": B}, index="i2", reflogs={"HEAD": "".join(ENTRY[:2])}
)


def test_nothing_is_expected_before_the_first_promise() -> None:
    assert expect([GitPromise("step", FIRST)], 0) is None


def test_promised_and_next_state_are_legal_part_by_part() -> None:
    assert rules(FIRST, [FIRST], SECOND) == set()
    assert rules(SECOND, [FIRST], SECOND) == set()
    assert rules(change(FIRST, index="i2"), [FIRST], SECOND) == set()
    assert rules(change(SECOND, index="i1"), [FIRST], SECOND) == set()


def test_next_state_is_not_legal_when_no_step_is_under_way() -> None:
    assert rules(SECOND, [FIRST]) == {"ref-unknown", "index-unknown", "reflog-unknown"}


def test_older_state_is_a_lost_promise() -> None:
    assert rules(FIRST, [FIRST, SECOND]) == {"ref-lost", "index-lost", "reflog-lost"}


def test_value_that_comes_back_is_legal() -> None:
    assert rules(FIRST, [FIRST, SECOND, FIRST]) == set()
    assert rules(FIRST, [FIRST, SECOND], FIRST) == set()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"head": ""}, {"head-lost"}),
        ({"head": "ref: refs/heads/x"}, {"head-unknown"}),
        ({"refs": {}}, {"ref-lost"}),
        ({"refs": {"refs/heads/main": C}}, {"ref-unknown"}),
        ({"refs": {"refs/heads/main": B, "refs/heads/new": C}}, {"ref-unknown"}),
        ({"index": ""}, {"index-lost"}),
        ({"index": "i9"}, {"index-unknown"}),
        ({"reflogs": {}}, {"reflog-lost"}),
        ({"reflogs": {"HEAD": ENTRY[1]}}, {"reflog-lost"}),
        ({"reflogs": {"HEAD": "".join(ENTRY[:3])}}, {"reflog-unknown"}),
        ({"settings": {}}, {"config-lost"}),
        ({"settings": {"core.bare": "true"}}, {"config-unknown"}),
        ({"settings": {"core.bare": "false", "x.y": "z"}}, {"config-unknown"}),
        ({"stash": [C]}, {"stash-unknown"}),
    ],
)
def test_one_part_wrong(fields: dict[str, object], expected: set[str]) -> None:
    assert rules(change(SECOND, **fields), [FIRST, SECOND]) == expected


def test_deleted_ref_that_is_back() -> None:
    deleted = change(FIRST, refs={})
    assert rules(FIRST, [FIRST, deleted]) == {"ref-resurrected"}
    assert rules(FIRST, [FIRST], deleted) == set()


def test_parts_that_cannot_be_read_hold_no_promise() -> None:
    gone = change(FIRST, refs={}, index="", settings={})
    names = frozenset(["refs/heads/main"])
    found = rules(gone, [FIRST], refs=names, index=True, config=True)
    assert found == {"ref-lost", "index-lost", "config-lost"}


def test_new_ref_that_cannot_be_read_was_not_promised() -> None:
    made = change(FIRST, refs={"refs/heads/main": A, "refs/heads/new": B})
    assert rules(FIRST, [FIRST], made, refs=frozenset(["refs/heads/new"])) == set()


def test_reflog_grows_entry_by_entry() -> None:
    after = change(FIRST, reflogs={"HEAD": "".join(ENTRY[:4])})
    for length in range(1, 5):
        found = change(FIRST, reflogs={"HEAD": "".join(ENTRY[:length])})
        assert rules(found, [FIRST], after) == set()
    assert rules(change(FIRST, reflogs={}), [FIRST], after) == {"reflog-lost"}
    odd = change(FIRST, reflogs={"HEAD": ENTRY[0] + ENTRY[2]})
    assert rules(odd, [FIRST], after) == {"reflog-resurrected"}


def test_equal_reflog_entries_are_counted() -> None:
    twice = change(FIRST, reflogs={"HEAD": ENTRY[0] * 2})
    assert rules(FIRST, [FIRST, twice]) == {"reflog-lost"}


def test_expired_reflog_that_is_back() -> None:
    expired = change(FIRST, reflogs={})
    assert rules(FIRST, [FIRST, expired]) == {"reflog-resurrected"}
    assert rules(FIRST, [FIRST], expired) == set()


def test_stash_entries() -> None:
    one, two = change(FIRST, stash=[C]), change(FIRST, stash=[D, C])
    assert rules(one, [FIRST, one, two]) == {"stash-lost"}
    assert rules(FIRST, [FIRST, one, two]) == {"stash-lost"}
    assert rules(one, [one], two) == set()
    assert rules(FIRST, [one], two) == {"stash-lost"}
    assert rules(two, [two, one]) == {"stash-resurrected"}
    assert rules(change(FIRST, stash=[C, D]), [one, two]) == {"stash-unknown"}


def torn(one_transaction: bool, found: dict[str, str], **unreadable: object) -> set[str]:
    before = change(FIRST, refs={"refs/heads/main": A, "refs/x": A, "refs/y": A})
    after = change(FIRST, refs={"refs/heads/main": A, "refs/x": B, "refs/z": B})
    step = GitPromise("update-ref", after, one_transaction=one_transaction)
    state = change(FIRST, refs={"refs/heads/main": A, **found})
    history = [GitPromise("step", before), step]
    expected = expect(history, 1)
    assert expected is not None
    return {one.rule for one in compare(state, Unreadable(**unreadable), expected)}  # type: ignore[arg-type]


def test_transaction_is_all_or_nothing() -> None:
    half = {"refs/x": B, "refs/y": A}
    assert torn(True, half) == {"transaction-torn"}
    assert torn(False, half) == set()
    assert torn(True, {"refs/x": A, "refs/y": A}) == set()
    assert torn(True, {"refs/x": B, "refs/z": B}) == set()
    assert torn(True, {"refs/x": B}) == {"transaction-torn"}


def test_refs_that_cannot_be_read_tear_no_transaction() -> None:
    assert torn(True, {"refs/x": A}) == {"transaction-torn"}
    assert torn(True, {"refs/x": A}, refs=frozenset(["refs/y"])) == {"ref-lost"}
    assert torn(True, {}, all_refs=True) == {"ref-lost"}


def test_head_at_a_branch_that_is_not_there() -> None:
    switched = change(
        FIRST, head="ref: refs/heads/new", refs={"refs/heads/main": A, "refs/heads/new": A}
    )
    dangling = change(FIRST, head="ref: refs/heads/new")
    assert rules(dangling, [FIRST], switched) == {"head-dangling"}
    assert rules(dangling, [FIRST, switched]) == {"ref-lost"}
    unborn = change(FIRST, refs={})
    assert rules(unborn, [unborn], FIRST) == set()
    assert rules(unborn, [unborn, FIRST]) == {"ref-lost"}


def test_states_that_a_step_declares() -> None:
    between = change(FIRST, index="between")
    declared = GitPromise("pop", SECOND, legal_between=[between])
    assert rules(between, [FIRST], SECOND) == {"index-unknown"}
    assert rules(between, [FIRST], declared) == set()
    free = GitPromise("pop", SECOND, unnoted_between=["index"])
    assert rules(between, [FIRST], free) == set()
    assert rules(change(between, index=""), [FIRST], free) == {"index-lost"}
    assert rules(change(between, refs={"refs/heads/main": C}), [FIRST], free) == {"ref-unknown"}


@pytest.mark.parametrize(
    ("part", "fields"),
    [
        ("head", {"head": "ref: refs/heads/x"}),
        ("refs", {"refs": {"refs/heads/main": C}}),
        ("stash", {"stash": [C]}),
        ("index", {"index": "i9"}),
        ("reflogs", {"reflogs": {"HEAD": ENTRY[0] + ENTRY[7]}}),
        ("config", {"settings": {"x.y": "z", "core.bare": "false"}}),
    ],
)
def test_unnoted_parts(part: str, fields: dict[str, object]) -> None:
    found = change(FIRST, **fields)
    assert rules(found, [FIRST], GitPromise("step", SECOND, unnoted_between=[part])) == set()
    assert len(rules(found, [FIRST], SECOND)) == 1

import json

import pytest

from crashsim.faults.disturbances import (
    DEFAULT,
    IN_GUEST,
    Kind,
    UnknownDisturbance,
    find,
    make,
    parse_disturbances,
    pauses_seconds,
    slow_down,
)


def kinds(names: list[str] | None) -> list[Kind]:
    return [each.kind for each in parse_disturbances(names, 1)]


def test_nothing_given_is_the_default() -> None:
    assert kinds(None) == kinds([]) == list(DEFAULT)


def test_none_is_no_disturbance() -> None:
    assert kinds(["none"]) == []


def test_names_may_be_repeated_or_listed_and_come_once_each() -> None:
    assert kinds(["slow,fsync", "fsync"]) == [Kind.FSYNC, Kind.SLOW]


@pytest.mark.parametrize("names", [["storm"], ["fsync", "none"], ["fsync,"], [""], ["FSYNC"]])
def test_unknown_names_are_refused(names: list[str]) -> None:
    with pytest.raises(UnknownDisturbance):
        parse_disturbances(names, 1)


def test_the_seed_decides_each_kinds_own_seed() -> None:
    one, same, other = (make(Kind, seed) for seed in (7, 7, 8))

    assert one == same
    assert len({each.seed for each in (*one, *other)}) == 2 * len(Kind)


def test_a_kinds_seed_does_not_depend_on_the_others() -> None:
    assert find(make(DEFAULT, 7), Kind.COMMIT) == find(make([Kind.COMMIT], 7), Kind.COMMIT)


def test_a_specification_is_json_and_names_its_root() -> None:
    for disturbance in make(IN_GUEST, 3):
        specification = json.loads(json.dumps(disturbance.specification("/mnt/0")))

        assert specification["root"] == "/mnt/0"
        assert specification["kind"] == disturbance.kind


def test_pauses_follow_from_the_seed_and_stay_below_their_limit() -> None:
    (commit,) = make([Kind.COMMIT], 5)
    pauses = pauses_seconds(commit, 400)

    assert pauses == pauses_seconds(commit, 400)
    assert all(0 <= pause <= 1.2 for pause in pauses)
    assert 0.2 < sum(pause > 0 for pause in pauses) / 400 < 0.5


def test_slowing_keeps_the_command_and_differs_from_one_to_the_next() -> None:
    (slow,) = make([Kind.SLOW], 5)
    wrapped = [slow_down(slow, ["git", "gc"], number) for number in range(8)]

    assert all(each[0] == "strace" and each[-3:] == ["--", "git", "gc"] for each in wrapped)
    assert len({tuple(each) for each in wrapped}) > 1
    assert wrapped[0] == slow_down(slow, ["git", "gc"], 0)

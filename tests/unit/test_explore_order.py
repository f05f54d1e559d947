"""Orders of enumeration."""

from itertools import islice, pairwise

import pytest

from crashsim.explore.order import Stream, round_robin, stratified, weighted_merge


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 100, 1023])
@pytest.mark.parametrize("rotation", [0, 1, 5])
def test_a_stratified_order_visits_everything_once(count: int, rotation: int) -> None:
    assert sorted(stratified(count, rotation)) == list(range(count))


@pytest.mark.parametrize("taken", [10, 50, 200])
def test_its_beginning_is_spread_over_the_whole(taken: int) -> None:
    count = 10_000
    beginning = sorted(islice(stratified(count, 37), taken))
    gaps = [after - before for before, after in pairwise(beginning)]
    assert max(gaps) <= 4 * count / taken


def test_a_merge_takes_turns_by_weight_and_gives_everything() -> None:
    streams = [
        Stream("a", 2, iter("aaaa")),
        Stream("b", 1, iter("bbbb")),
        Stream("c", 1, iter("c")),
    ]
    merged = "".join(item for _, item in weighted_merge(streams))
    assert sorted(merged) == sorted("aaaabbbbc")
    assert merged[:4] == "abca"


def test_round_robin_makes_sources_only_as_it_needs_them() -> None:
    made: list[int] = []

    def source(number: int) -> list[str]:
        made.append(number)
        return [f"{number}.{item}" for item in range(number)]

    items = round_robin(iter(source(number)) for number in range(4))
    assert next(items) == "1.0"
    assert made == [0, 1]
    assert list(items) == ["2.0", "3.0", "2.1", "3.1", "3.2"]

"""Pruned and unpruned explorations agree, state for state."""

import inspect
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crashsim.explore.exploration import Exploration
from crashsim.explore.read_tree import ReadTree
from crashsim.explore.verdict import PRUNINGS, DecidedBy
from tests.support.toy_exploring import ScrubbingOracle, Toy, ToyOracle
from tests.support.toy_store import Flaw, Put

puts = st.lists(
    st.builds(Put, st.integers(0, 2), st.integers(0, 2), st.booleans()), min_size=1, max_size=5
)
flaws = st.one_of(st.none(), st.sampled_from(Flaw))


@contextmanager
def recorded(some_puts: list[Put], flaw: Flaw | None) -> Iterator[Toy]:
    with (
        tempfile.TemporaryDirectory() as directory,
        Toy.record(Path(directory) / "log", some_puts, flaw) as toy,
    ):
        yield toy


def explorations(
    toy: Toy, prunings: frozenset[DecidedBy], oracle: ToyOracle
) -> tuple[Exploration, Exploration]:
    pruned = toy.explore(states=120, prunings=prunings, oracle=oracle)
    unpruned = toy.explore(states=120, prunings=frozenset(), oracle=oracle)
    return pruned, unpruned


@settings(deadline=None, max_examples=40)
@given(puts, flaws, st.sets(st.sampled_from(sorted(PRUNINGS))).map(frozenset))
def test_any_prunings_agree_with_none(
    some_puts: list[Put], flaw: Flaw | None, prunings: frozenset[DecidedBy]
) -> None:
    with recorded(some_puts, flaw) as toy:
        pruned, unpruned = explorations(toy, prunings, ToyOracle())
        assert list(pruned.verdicts.items()) == list(unpruned.verdicts.items())
        assert set(pruned.decided_by) <= {DecidedBy.CHECK, *prunings}
        assert set(unpruned.decided_by) == {DecidedBy.CHECK}


@settings(deadline=None, max_examples=40)
@given(puts, flaws)
def test_what_an_exercise_reads_counts_as_read(some_puts: list[Put], flaw: Flaw | None) -> None:
    """Its answer here depends on a page that recovery never reads, so only reads can prune it."""
    with recorded(some_puts, flaw) as toy:
        prunings = PRUNINGS - {DecidedBy.SAME_TREE}
        pruned, unpruned = explorations(toy, prunings, ScrubbingOracle())
        assert list(pruned.verdicts.items()) == list(unpruned.verdicts.items())


def test_the_comparison_catches_a_pruning_that_forgets_what_was_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole_add = ReadTree.add

    def forgetful_add(tree: ReadTree[object], reads: dict[int, int], value: object) -> None:
        last = max(reads, default=None)
        whole_add(tree, {page: reads[page] for page in reads if page != last}, value)

    monkeypatch.setattr(ReadTree, "add", forgetful_add)
    with recorded([Put(1), Put(2)], Flaw.MISSING_FLUSH) as toy:
        pruned, unpruned = explorations(toy, frozenset({DecidedBy.SAME_READS}), ToyOracle())
    assert pruned.verdicts != unpruned.verdicts


@settings(deadline=None)
@given(
    st.lists(st.lists(st.integers(0, 2), min_size=6, max_size=6), min_size=1, max_size=40),
    st.integers(0, 5),
    st.booleans(),
)
def test_a_read_tree_answers_only_what_a_recovery_would(
    disks: list[list[int]], first: int, read_ahead: bool
) -> None:
    """Recoveries that hop from page to page by content, some of which read ahead."""
    tree: ReadTree[tuple[int, ...]] = ReadTree()

    def recover(disk: list[int]) -> tuple[dict[int, int], tuple[int, ...]]:
        reads: dict[int, int] = {}
        page, seen = first, []
        for _ in range(4):
            reads[page] = disk[page]
            seen.append(disk[page])
            page = (page + disk[page] + 1) % len(disk)
        if read_ahead and sum(seen) % 2:
            reads[page] = disk[page]
        return reads, tuple(seen)

    hits = 0
    for disk in disks + disks:
        reads, outcome = recover(disk)
        found = tree.find(disk.__getitem__)
        assert found in (None, outcome)
        hits += found is not None
        if found is None:
            tree.add(reads, outcome)
    assert hits >= len(disks), "what was just added is found again"


def test_a_read_tree_may_be_one_chain_longer_than_the_stack_is_deep() -> None:
    """Recoveries that scan until they find something, each a page further than the last."""
    tree: ReadTree[int] = ReadTree()
    length = 200
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 100)
    try:
        for end in range(length):
            tree.add({page: int(page == end) for page in range(end + 1)}, end)
        for end in range(length):
            disk = [int(page == end) for page in range(length)]
            assert tree.find(disk.__getitem__) == end
    finally:
        sys.setrecursionlimit(limit)
    assert tree.find(lambda _: 0) is None

"""What a recovery owes: which states are legal while it is under way, and after it."""

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import numpy as np
import pytest

from crashsim.campaigns.recorded import Recorded
from crashsim.campaigns.recovery_target import FirstCut, NotRecovered, recovery_target
from crashsim.campaigns.targets import CommandChoice, choose_target
from crashsim.disk.state import CrashState
from crashsim.explain.files import PREPARED, Snapshot
from crashsim.explore.timeline import Timeline
from crashsim.machines.protocol import Guest, Recovery
from crashsim.machines.tree import Tree
from crashsim.oracles.git.history import Unreadable, compare, expect
from crashsim.oracles.git.snapshot import GitPromise, GitSnapshot, decode_promise, encode_promise
from crashsim.oracles.protocol import Moment, Property, Violation
from crashsim.workloads.registry import TargetOptions

A, B, C = "a" * 40, "b" * 40, "c" * 40


def state(value: str, index: str = "i") -> GitSnapshot:
    return GitSnapshot(head="ref: refs/heads/main", refs={"refs/heads/main": value}, index=index)


OLD, HELD, NEXT = state(A), state(B), state(C)
HISTORY = [
    encode_promise("one", OLD),
    encode_promise("two", HELD),
    encode_promise("three", NEXT, unnoted_between=("index",), one_transaction=True),
]


@dataclass
class Judge:
    """An oracle of one answer."""

    found: list[Violation]

    def judge(self, _tree: Tree, _moment: Moment) -> list[Violation]:
        return self.found


def first_cut(promises: int, found: list[Violation] | None = None) -> FirstCut:
    """A cut after so many of the promises of `HISTORY`."""
    nothing = np.zeros(0, np.int64)
    timeline = Timeline(
        *(nothing,) * 5,
        np.zeros(0, np.bool_),
        np.array([10, 20, 30], np.int64),
        HISTORY,
        0,
        40,
    )
    recorded = SimpleNamespace(timeline=timeline, oracle=Judge(found or []))
    return FirstCut(cast(Recorded, recorded), CrashState(10 * promises + 5))


def promise_after_gc(
    monkeypatch: pytest.MonkeyPatch, promises: int, recovered: GitSnapshot, left: GitSnapshot
) -> GitPromise:
    tree, after = Tree({}), Tree({})
    monkeypatch.setattr(
        "crashsim.campaigns.recovery_target.snapshot",
        lambda asked, _git_dir: recovered if asked is tree else left,
    )
    first = first_cut(promises)
    first.snapshots.taken.append(Snapshot(PREPARED, tree))
    target = choose_target("git", None, None, CommandChoice(), TargetOptions(fsync="all"))
    deeper = first.target(recovery_target(target))
    assert deeper.promise is not None
    return decode_promise(deeper.promise("gc", after))


def broken(promises: int, gc: GitPromise, found: GitSnapshot, *, after: bool = False) -> set[str]:
    """The rules that `found` breaks while gc is under way, or after it."""
    history = [*map(decode_promise, HISTORY[:promises]), gc]
    expected = expect(history, promises + after)
    assert expected is not None
    return {one.rule for one in compare(found, Unreadable(), expected)}


def test_what_the_first_life_promised_is_in_force_and_what_was_under_way_is_legal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gc = promise_after_gc(monkeypatch, 2, recovered=NEXT, left=NEXT)

    assert broken(2, gc, HELD) == set()
    assert broken(2, gc, NEXT) == set()
    assert broken(2, gc, OLD) == {"ref-lost"}
    assert broken(2, gc, state("d" * 40)) == {"ref-unknown"}
    assert broken(2, gc, msgspec.structs.replace(NEXT, index="never noted")) == set()
    assert gc.one_transaction


def test_what_the_step_might_have_come_to_and_what_was_there_are_legal_until_gc_is_done(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    there, left = state(B, "between"), state(B, "after")
    gc = promise_after_gc(monkeypatch, 2, recovered=there, left=left)
    strict = msgspec.structs.replace(gc, unnoted_between=[])

    assert broken(2, strict, NEXT) == set()
    assert broken(2, strict, there) == set()
    assert broken(2, strict, left) == set()
    assert broken(2, strict, left, after=True) == set()
    assert broken(2, strict, there, after=True) == {"index-unknown"}


def test_a_step_that_never_began_is_legal_no_more_than_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    gc = promise_after_gc(monkeypatch, 3, recovered=NEXT, left=NEXT)

    assert broken(3, gc, NEXT) == set()
    assert broken(3, gc, HELD) == {"ref-lost"}
    assert gc.unnoted_between == []


def test_what_gc_left_is_promised_when_it_has_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    gc = promise_after_gc(monkeypatch, 2, recovered=NEXT, left=NEXT)

    assert broken(2, gc, NEXT, after=True) == set()
    assert broken(2, gc, HELD, after=True) == {"ref-lost"}


def test_the_promises_in_force_are_all_that_were_made_before_the_cut() -> None:
    origin = first_cut(2).origin(
        choose_target(None, None, ["true"], CommandChoice(check="true"), TargetOptions())
    )

    assert list(origin.promises) == HISTORY[:2]
    assert origin.explored


@pytest.mark.parametrize(
    ("recovery", "found", "told"),
    [
        (Recovery(None, "EUCLEAN"), [], "does not mount any more"),
        (
            Recovery(Tree({})),
            [Violation(Property.DURABLE, "lost", "", "it is gone")],
            "does not hold any more: it is gone",
        ),
    ],
)
def test_a_recovery_that_comes_to_something_else_than_before_is_given_up(
    recovery: Recovery, found: list[Violation], told: str
) -> None:
    target = choose_target(None, None, ["true"], CommandChoice(check="true"), TargetOptions())
    origin = first_cut(2, found).origin(recovery_target(target))

    with pytest.raises(NotRecovered, match=told):
        origin.recovered(cast(Guest, None), recovery)


def test_a_command_recovers_by_its_own_means_or_by_the_mount_alone(tmp_path: Path) -> None:
    choice = CommandChoice(check="true", setup="echo 1", recover="store --repair")
    target = recovery_target(choose_target(None, None, ["true"], choice, TargetOptions()))
    mount_only = recovery_target(
        choose_target(None, None, ["true"], CommandChoice(check="true"), TargetOptions())
    )

    assert [step.argv for step in target.workload.steps] == [("sh", "-c", "store --repair")]
    assert list(mount_only.workload.steps) == []

    (tmp_path / "w.toml").write_text(
        'check = "true"\nrecover = "store --repair"\n[[step]]\nrun = "true"\n'
    )
    of_file = choose_target(None, tmp_path / "w.toml", None, CommandChoice(), TargetOptions())
    assert of_file.recover == "store --repair"


@pytest.mark.parametrize(("name", "word"), [("git", "git gc -q"), ("impl", "python3 -m impl")])
def test_a_repository_is_recovered_by_its_program_under_the_same_method(
    name: str, word: str
) -> None:
    chosen = choose_target(
        name, None, None, CommandChoice(), TargetOptions(fsync="all", method="fsync")
    )
    target = recovery_target(chosen)

    (step,) = target.workload.steps
    assert step.name == "gc"
    assert word in step.argv[-1]
    assert "git gc -q --prune=now" in step.argv[-1]
    assert target.workload.environment == chosen.workload.environment

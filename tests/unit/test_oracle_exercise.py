"""What is made of the answers of real git in a guest, and of any command."""

import pytest

from crashsim.machines.protocol import CommandResult
from crashsim.machines.tree import Node, NodeKind, Tree
from crashsim.oracles.command import CommandOracle
from crashsim.oracles.git.exercise import decide, parse_steps, run_exercise
from crashsim.oracles.git.fsck import cross_check, read_report
from crashsim.oracles.git.rules import violation
from crashsim.oracles.protocol import Inconclusive, Moment, Property
from tests.support.scripted_guest import ScriptedGuest

STEPS = ("add", "read", "commit", "pack-refs", "repack", "fsck", "refs")
REFS = ("refs/heads/main", "refs/tags/v1")


def output(**codes: int) -> str:
    """The script's output; `pack_refs=1` makes one step fail."""
    return "".join(
        ("\n".join(REFS) if name == "refs" else f"warning: x\nerror: {name} is bad\nlast words")
        + f"\ncrashsim-exercise {name} {codes.get(name.replace('-', '_'), 0)}\n"
        for name in STEPS
    )


def answering(result: CommandResult) -> ScriptedGuest:
    return ScriptedGuest(behave=lambda guest, argv, on_mark: result)


def rules(text: str, *judged: str) -> list[str]:
    found = [violation(rule, "", "") for rule in judged]
    return [one.rule for one in decide(parse_steps(text), "repo/.git", found, REFS)]


def test_all_well() -> None:
    assert rules(output()) == []


@pytest.mark.parametrize(
    ("step", "rule"),
    [
        ("add", "add-failed"),
        ("read", "added-object-unreadable"),
        ("commit", "commit-failed"),
        ("pack_refs", "pack-refs-failed"),
        ("repack", "repack-failed"),
        ("fsck", "fsck-complains"),
    ],
)
def test_a_step_fails(step: str, rule: str) -> None:
    (found,) = decide(parse_steps(output(**{step: 128})), "repo/.git", [], REFS)
    assert found.rule == rule
    assert found.detail.endswith(f"error: {step.replace('_', '-')} is bad")


def test_packing_is_judged_on_whole_repositories_only() -> None:
    text = output(pack_refs=1, repack=128, fsck=1)
    assert rules(text, "ref-object-missing") == []
    assert rules(text, "reflog-lost") == ["pack-refs-failed", "repack-failed"]
    assert rules(output(add=128), "ref-object-missing") == ["add-failed"]


def test_packing_loses_a_ref() -> None:
    text = output().replace(REFS[1], "")
    assert rules(text) == ["packing-lost-refs"]
    assert rules(text, "ref-object-missing") == []


@pytest.mark.parametrize(
    "result",
    [
        CommandResult(0, output().encode(), b"", 1.0, timed_out=True),
        CommandResult(3, b"", b"cannot cd", 1.0),
        CommandResult(0, output().partition("crashsim-exercise repack")[0].encode(), b"", 1.0),
        CommandResult(0, output(commit=139).encode(), b"", 1.0),
        CommandResult(-9, b"", b"", 1.0),
    ],
)
def test_unexpected_ends_are_inconclusive(result: CommandResult) -> None:
    with pytest.raises(Inconclusive):
        run_exercise(answering(result), "/mnt/0", "repo/.git", "repo", [], REFS)


def test_fsck_reports() -> None:
    assert read_report(0, "").is_clean
    report = read_report(2, "error: x\n\nmissing blob y\n")
    assert report.complaints == ("error: x", "missing blob y")
    assert report.agrees_with([violation("ref-object-missing", "", "")])
    assert not report.agrees_with([violation("reflog-lost", "", "")])
    for code in (139, 134, -11):
        with pytest.raises(Inconclusive):
            read_report(code, "Segmentation fault")


def test_cross_check_in_a_guest() -> None:
    guest = answering(CommandResult(1, b"", b"error: bad\n", 0.1))
    assert cross_check(guest, "/mnt/0/").complaints == ("error: bad",)
    assert guest.calls[0][1][0][-1] == "/mnt/0/repo/.git"
    with pytest.raises(Inconclusive):
        cross_check(answering(CommandResult(0, b"", b"", 9.0, timed_out=True)), "/mnt/0")


MOMENT = Moment(('{"crashsim":"start"}', "saved 1", "saved 2", '{"crashsim":"end"}'))
TREE = Tree({"a": Node(NodeKind.FILE, 0o644, 0, "00")})


def check(result: CommandResult) -> tuple[list[str], ScriptedGuest]:
    guest = answering(result)
    found = CommandOracle("test -e a", 5).exercise(guest, "/mnt/1", TREE, MOMENT)
    return [f"{one.property} {one.rule} {one.detail}" for one in found], guest


def test_command_holds() -> None:
    found, guest = check(CommandResult(0, b"", b"", 0.1))
    assert found == []
    (_, (path, content)), (_, (argv, cwd, env)) = guest.calls
    assert content == b"saved 1\nsaved 2\n"
    assert (argv, cwd) == (("/bin/sh", "-c", "test -e a"), "/mnt/1")
    assert env == {"CRASHSIM_PROMISES": path}


def test_command_finds_a_broken_promise() -> None:
    found, _ = check(CommandResult(1, b"a\nb\nc\nd\ne\nf\n", b"lost 2\n", 0.1))
    assert found == ["durable check-failed c / d / e / f / lost 2"]
    assert check(CommandResult(1, b"", b"", 0.1))[0] == ["durable check-failed it printed nothing"]


@pytest.mark.parametrize(
    "result",
    [
        CommandResult(2, b"", b"", 0.1),
        CommandResult(127, b"", b"not found", 0.1),
        CommandResult(-11, b"", b"", 0.1),
        CommandResult(0, b"", b"", 5.0, timed_out=True),
        CommandResult(1, b"", b"", 5.0, timed_out=True),
    ],
)
def test_any_other_end_of_a_command_is_inconclusive(result: CommandResult) -> None:
    with pytest.raises(Inconclusive):
        check(result)


def test_command_depends_on_tree_and_promises() -> None:
    oracle = CommandOracle("true")
    assert oracle.judge(TREE, MOMENT) == []
    assert tuple(oracle.properties) == (Property.DURABLE,)
    key = oracle.exercise_key(TREE, MOMENT)
    assert key == oracle.exercise_key(TREE, Moment(("saved 1", "saved 2")))
    assert key != oracle.exercise_key(TREE, Moment(("saved 1",)))
    assert key != oracle.exercise_key(Tree({}), MOMENT)

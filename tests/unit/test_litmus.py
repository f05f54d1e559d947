"""Litmus tests without a guest: the language, the variants, the conclusions."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

import crashsim.cli.litmus as command
from crashsim.campaigns.litmus import Tally, compare
from crashsim.campaigns.litmus_model import AFTER, EVER, allowed_outcomes, model_of
from crashsim.campaigns.litmus_result import (
    Example,
    LitmusFilesystemResult,
    LitmusResult,
    LitmusTestResult,
    SeenOutcome,
    UnseenOutcome,
    together,
)
from crashsim.campaigns.results import MachineResult
from crashsim.cli.main import app
from crashsim.disk.state import CrashState, TornWrite
from crashsim.errors import UsageError
from crashsim.machines.tree import Tree
from crashsim.model.models import MODELS
from crashsim.oracles.litmus import LitmusObserver
from crashsim.oracles.outcomes import look_in, outcome
from crashsim.oracles.protocol import Moment, Property, Violation
from crashsim.report.litmus import GENERATED, litmus_markdown
from crashsim.workloads.litmus import make_run, variants
from crashsim.workloads.litmus_interpreter import (
    BLOCK_BYTES,
    DIRECTORY,
    Interpreter,
    SystemPort,
    run_all,
)
from crashsim.workloads.litmus_tests import BY_NAME, TESTS, Litmus, choose_tests
from tests.support.host_tree import host_tree


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory of the interpreter."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.name)
def test_the_host_and_every_model_agree_on_a_test_that_nothing_interrupts(
    here: Path, test: Litmus
) -> None:
    left: dict[str, str] = {}

    def mark(text: str) -> None:
        look = look_in(host_tree(here), DIRECTORY, BLOCK_BYTES)
        left[text.partition(" ")[0]] = outcome(test.files, look)

    runs = [make_run(test, variant) for variant in variants("ext4")]
    for run in runs:
        fields = {"name": run.name, "setup": run.setup, "run": run.run, "after": run.after}
        run_all("ext4", [fields], mark)

        assert left["done"] == left["end"]
        for model in MODELS.values():
            allowed = allowed_outcomes(test, model)
            assert left["begin"] in allowed[EVER], model.name
            assert left["done"] in allowed[AFTER], model.name


def test_runs_leave_nothing_to_the_next_one(here: Path) -> None:
    run = {"name": "x", "setup": ["mkdir a", "open f a/b write create"], "run": [], "after": []}
    seen: list[set[str]] = []

    run_all("ext4", [run, {**run, "setup": []}], lambda text: seen.append(set(_names(here))))

    assert seen[0] == {"a", "a/b"}
    assert seen[-1] == set()


def _names(root: Path) -> list[str]:
    return [path.removeprefix("t/") for path in host_tree(root).nodes if path.startswith("t/")]


@pytest.mark.parametrize("line", ["chmod f 644", "open f value sideways", "fsync nobody"])
def test_a_line_that_is_none_is_refused(here: Path, line: str) -> None:
    with pytest.raises(KeyError):
        Interpreter(SystemPort(), ".").run(line)


def test_others_come_after_each_call_that_changes_something() -> None:
    by_name = {variant.name: variant for variant in variants("ext4")}
    test = BY_NAME["replace-fsync-directory"]

    run = make_run(test, by_name["fsync"])

    assert [line for line in run.run if not line.startswith("others")] == list(test.run)
    before = [run.run[i - 1].split()[0] for i, line in enumerate(run.run) if "others" in line]
    assert before == ["open", "write", "fsync", "rename"]
    assert make_run(test, by_name["fsync-last"]).after == ("others fsync",)
    assert make_run(test, by_name["alone"]).run == test.run


def test_commits_are_tried_where_they_are_something_else_than_an_fsync() -> None:
    assert {v.name for v in variants("btrfs")} - {v.name for v in variants("ext4")} == {
        "commit",
        "commit-last",
        "writeback-commit",
        "writeback-commit-last",
    }


def test_every_test_has_a_name_of_its_own_and_files_that_it_touches() -> None:
    assert len(BY_NAME) == len(TESTS)
    for test in TESTS:
        words = " ".join((*test.setup, *test.run)).split()
        assert set(test.files) <= set(words), test.name


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(UsageError, match="append, append-fsync"):
        choose_tests(["nonsense"])


def test_an_observation_tells_run_stage_and_outcome() -> None:
    observer = LitmusObserver(BY_NAME)

    def observe(*marks: str) -> list[tuple[Property, str, str]]:
        found = observer.judge(Tree({}), Moment(marks))
        return [(each.property, each.subject, each.rule) for each in found]

    assert observe() == []
    assert observe("begin create alone") == [(Property.ATOMIC, "create alone", "missing")]
    assert observe("begin create alone", "done create alone") == [
        (Property.DURABLE, "create alone", "missing")
    ]
    assert observe("begin create alone", "done create alone", "end create alone") == []


def test_the_model_tells_careful_programs_from_careless_ones() -> None:
    for name in ("ext4", "xfs", "btrfs", "f2fs"):
        model = model_of(name)
        assert model is not None
        careful = allowed_outcomes(BY_NAME["replace-fsync-directory"], model)
        assert careful[AFTER] == {"new"}
        assert careful[EVER] == {"old", "new"}
        assert "missing" in allowed_outcomes(BY_NAME["create"], model)[AFTER]


def test_options_without_a_model_are_held_to_none() -> None:
    assert model_of("ext4:data=journal") is None


def observed(variant: str, seen: str, property_: Property) -> Violation:
    return Violation(property_, seen, f"create-fsync {variant}", "")


def test_what_the_model_forbids_and_what_nobody_saw_is_told() -> None:
    tally = Tally({variant.name: variant for variant in variants("ext4")})
    lost = CrashState(5, frozenset({2}))
    tally.add(lost, [observed("fsync", "empty", Property.DURABLE)])
    tally.add(CrashState(9), [observed("alone", "empty", Property.DURABLE)])
    tally.add(CrashState(4), [observed("alone", "missing", Property.ATOMIC)])
    tally.add(CrashState(4), [Violation(Property.RECOVERABLE, "does-not-mount", "", "")])

    compared = compare(BY_NAME["create-fsync"], tally, model_of("ext4"))

    empty, missing, after = compared.seen
    assert (empty.stage, empty.outcome, empty.allowed, empty.alone) == (EVER, "empty", True, 1)
    assert (missing.stage, missing.outcome, missing.disturbed) == (EVER, "missing", 0)
    assert (after.outcome, after.allowed, after.alone, after.disturbed) == ("empty", False, 1, 1)
    assert after.example == Example("alone", 9, [], [])  # a cut is simpler than a lost write
    assert UnseenOutcome(AFTER, "new") in compared.unseen
    assert tally.unmountable == 1


def test_a_file_that_cannot_be_read_is_no_outcome_where_a_write_was_torn() -> None:
    tally = Tally({variant.name: variant for variant in variants("f2fs")})
    unreadable = observed("alone", "unreadable", Property.ATOMIC)
    tally.add(CrashState(4, torn=frozenset({TornWrite(2, (1, 3))})), [unreadable])
    assert tally.damaged == 1
    assert compare(BY_NAME["create-fsync"], tally, model_of("f2fs")).seen == []

    tally.add(CrashState(4, frozenset({2})), [unreadable])
    assert tally.damaged == 1
    (seen,) = compare(BY_NAME["create-fsync"], tally, model_of("f2fs")).seen
    assert seen.allowed is False


def test_without_a_model_nothing_is_forbidden() -> None:
    tally = Tally({variant.name: variant for variant in variants("ext4")})
    tally.add(CrashState(9), [observed("alone", "empty", Property.DURABLE)])

    compared = compare(BY_NAME["create-fsync"], tally, None)

    assert [each.allowed for each in compared.seen] == [None, None]
    assert compared.unseen == []


EXAMPLE = Example("fsync", 7, [3], [])


def result(*, allowed: bool | None, inconclusive: int = 0) -> LitmusResult:
    seen = SeenOutcome(AFTER, "old×2", 0, 3, allowed, EXAMPLE)
    test = LitmusTestResult(
        "append", "?", ["mkdir a"], ["unlink b"], [seen], [UnseenOutcome(AFTER, "zeros")]
    )
    filesystem = LitmusFilesystemResult(
        fs="ext4",
        model=None if allowed is None else "ext4-ordered",
        tests=[test],
        runs=5,
        states=10,
        recovered=4,
        unmountable=0,
        inconclusive=inconclusive,
        seconds=1.0,
    )
    return LitmusResult(MachineResult("scripted", "none", "6.12"), 0, 24, [filesystem])


@pytest.mark.parametrize(
    ("outcome_of_run", "code", "words"),
    [
        (result(allowed=True), 0, "all allowed"),
        (result(allowed=None), 0, "no model for it"),
        (
            result(allowed=False),
            1,
            "✗ append: old×2 after all calls have returned, in variant fsync",
        ),
        (result(allowed=True, inconclusive=2), 3, "2 states undecided"),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch, outcome_of_run: LitmusResult, code: int, words: str
) -> None:
    monkeypatch.setattr(command, "choose_machine", lambda *_, **__: None)
    monkeypatch.setattr(command, "run_litmus", lambda *_, **__: outcome_of_run)

    ended = CliRunner().invoke(app, ["litmus", "append"])

    assert ended.exit_code == code, ended.output
    assert words in " ".join(ended.output.split())


def on(fs: str, given: LitmusResult, **changes: Any) -> LitmusResult:
    filesystem = msgspec.structs.replace(given.filesystems[0], fs=fs)
    return msgspec.structs.replace(given, filesystems=[filesystem], **changes)


def write(path: Path, given: LitmusResult) -> str:
    path.write_bytes(msgspec.json.encode(given))
    return str(path)


def test_results_of_several_runs_are_told_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = result(allowed=True)
    monkeypatch.setattr(command, "choose_machine", lambda *_, **__: None)
    monkeypatch.setattr(command, "run_litmus", lambda *_, **__: on("btrfs", given))
    ext4, xfs = (write(tmp_path / fs, on(fs, given)) for fs in ("ext4", "xfs"))
    page = tmp_path / "page.md"

    ended = CliRunner().invoke(
        app, ["litmus", "--add", ext4, "--add", xfs, "--markdown", str(page)]
    )
    assert ended.exit_code == 0, ended.output
    assert "| test | ext4 | xfs |" in page.read_text()

    arguments = ["litmus", "--add", ext4, "--fs", "btrfs", "--markdown", str(page)]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    assert "| test | ext4 | btrfs |" in page.read_text()


@pytest.mark.parametrize(("other", "most"), [(2, 24), (100, 100), (None, None)])
def test_budgets_may_differ(other: int | None, most: int | None) -> None:
    given = result(allowed=True)

    assert together([given, on("xfs", given, states_per_run=other)]).states_per_run == most


def test_results_that_cannot_be_compared_are_refused(tmp_path: Path) -> None:
    given = result(allowed=True)
    ext4 = write(tmp_path / "ext4", on("ext4", given))
    others = [
        write(tmp_path / "seed", on("xfs", given, seed=1)),
        ext4,
        str(tmp_path / "missing"),
    ]
    for other in others:
        ended = CliRunner().invoke(app, ["litmus", "--add", ext4, "--add", other])
        assert isinstance(ended.exception, UsageError), other


def test_the_markdown_tells_disturbed_and_forbidden_outcomes_apart() -> None:
    text = litmus_markdown(result(allowed=False))

    assert "| append | ✗ `old×2`° |" in text
    assert "| append | `zeros` after |" in text


def test_what_a_page_says_above_its_tables_stays() -> None:
    page = litmus_markdown(result(allowed=False), f"# Mine\n\n{GENERATED}\nold tables")

    assert page.startswith(f"# Mine\n\n{GENERATED}\n\n## What was seen")
    assert "old tables" not in page


@pytest.mark.parametrize("arguments", [["nonsense"], ["--fs", "fat"], ["--fs", "xfs"] * 2])
def test_bad_calls_are_refused_before_anything_runs(arguments: list[str]) -> None:
    ended = CliRunner().invoke(app, ["litmus", *arguments])

    assert isinstance(ended.exception, UsageError)

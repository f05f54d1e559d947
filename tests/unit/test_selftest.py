"""The selftest's own parts, without a guest: its programs, its rules, its conclusions."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

import crashsim.cli.selftest as command
from crashsim.campaigns.results import MachineResult
from crashsim.campaigns.selftest import ProgramsFailed, judge_programs, record_part
from crashsim.campaigns.selftest_parts import PARTS, Part
from crashsim.campaigns.selftest_result import HarnessOutcome, SelftestResult
from crashsim.cli.main import app
from crashsim.disk.state import CrashState, TornWrite
from crashsim.errors import InfrastructureError
from crashsim.explore.exploration import Exploration
from crashsim.machines.protocol import CommandResult, Mark
from crashsim.oracles.outcomes import describe
from crashsim.oracles.protocol import Moment, Property, Violation
from crashsim.oracles.selftest import RULES, SelftestOracle
from crashsim.workloads import selftest_programs
from crashsim.workloads.selftest_programs import BLOCK_BYTES, NEW, OLD, PROGRAMS, directory
from tests.support.host_tree import changed_tree, host_tree
from tests.support.scripted_guest import ScriptedGuest, ScriptedMachine
from tests.support.scripted_guest import result as scripted

MISTAKES = {program for part in PARTS for program in part.programs if program not in part.harmless}
PART = Part(name="some", programs=("torn", "batch"), states=2, harmless=frozenset({"batch"}))


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The root of a directory in which every program has run, with a `crashsim-mark` that notes."""
    tmp_path = tmp_path_factory.mktemp("selftest")
    (tmp_path / "bin").mkdir()
    mark = tmp_path / "bin/crashsim-mark"
    mark.write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/marks\n')
    mark.chmod(0o755)
    root = tmp_path / "root"
    (root / ".crashsim-disturb").mkdir(parents=True)
    for what in ("prepare", "run"):
        subprocess.run(
            [sys.executable, "-c", _IMPATIENT, what, *PROGRAMS],
            cwd=root,
            env={**os.environ, "PATH": f"{tmp_path}/bin:{os.environ['PATH']}"},
            check=True,
        )
    return root


_IMPATIENT = f"""
import sys
source = open({selftest_programs.__file__!r}).read().replace("_seconds = 30.0", "_seconds = 0.0")
exec(compile(source, "programs", "exec"), {{"__name__": "__main__"}})
"""


def test_every_program_has_a_rule_and_a_mistake_that_is_looked_for() -> None:
    assert RULES.keys() == PROGRAMS.keys() == MISTAKES


def test_without_a_crash_both_twins_of_every_program_keep_their_promises(ran: Path) -> None:
    marks = (ran.parent / "marks").read_text().splitlines()

    assert len(marks) == 4 * len(PROGRAMS)
    assert SelftestOracle(tuple(PROGRAMS)).judge(host_tree(ran), Moment(tuple(marks))) == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_program_whose_files_are_gone_breaks_its_promise(ran: Path, program: str) -> None:
    tree = host_tree(ran)
    place = directory(program, careful=True)
    tree = changed_tree(tree, {path: None for path, _ in tree.below(place)})

    violations = SelftestOracle((program,)).judge(
        tree, Moment((f"begun {program} careful", f"saved {program} careful"))
    )

    assert [(each.property, each.rule) for each in violations] == [
        (Property.DURABLE, f"{program} careful")
    ]


@pytest.mark.parametrize(
    ("program", "files", "broken"),
    [
        ("truncated", {"value": b""}, True),
        ("truncated", {"value": OLD}, False),
        ("torn", {"value": NEW[:512] + OLD[512:]}, True),
        ("torn", {"value": NEW}, False),
        ("unordered", {"content": OLD, "pointer": NEW}, True),
        ("unordered", {"content": NEW, "pointer": OLD}, False),
        ("early-unlink", {"copy-2": b""}, True),
        ("early-unlink", {"copy-1": OLD, "copy-2": b""}, False),
        ("late-fsync", {"value": bytes(BLOCK_BYTES)}, True),
        ("late-fsync", {}, False),
        ("no-fsync", {}, False),  # nothing was promised yet
    ],
)
def test_what_a_program_may_leave_while_it_is_at_work(
    tmp_path: Path, program: str, files: Mapping[str, bytes], broken: bool
) -> None:
    place = tmp_path / directory(program, careful=False)
    place.mkdir()
    for name, content in files.items():
        (place / name).write_bytes(content)

    violations = SelftestOracle((program,)).judge(
        host_tree(tmp_path), Moment((f"begun {program} careless",))
    )

    assert [each.property for each in violations] == [Property.ATOMIC] * broken


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"o" * 8, "old"),
        (b"o" * 8 + b"n" * 16, "old+new×2"),
        (b"o" * 8 + bytes(8), "old+zeros"),
        (b"n" * 3 + b"o" * 5, "torn(new,old)"),
        (b"?" * 8, "garbage"),
        (b"o" * 7, "torn(old)"),
        (b"onononon", "torn(new,old)"),
    ],
)
def test_contents_in_words(content: bytes, words: str) -> None:
    assert describe(content, 8) == words


def exploration(verdicts: Mapping[CrashState, tuple[Violation, ...]]) -> Exploration:
    return Exploration(verdicts, {}, (), {}, {}, None, 0, "", {})


def violation(run: str) -> Violation:
    return Violation(Property.ATOMIC, run, "", "it is torn")


TORN = CrashState(3, torn=frozenset({TornWrite(1, (0,))}))
DROPPED = CrashState(3, frozenset({1, 2}))


def test_a_caught_mistake_and_clean_twins_pass() -> None:
    found = judge_programs(
        PART, exploration({CrashState(1): (), TORN: (violation("torn careless"),)})
    )

    assert all(each.passed for each in found)
    assert [each.simplest for each in found] == ["a torn write", "", "", ""]


def test_the_simplest_state_is_told() -> None:
    broken = (violation("torn careless"),)

    found = judge_programs(PART, exploration({TORN: broken, DROPPED: broken}))

    assert (found[0].broken, found[0].states, found[0].simplest) == (2, 2, "a lost write")


@pytest.mark.parametrize(
    "broken", ["torn careful", "batch careless", "batch careful", "does-not-mount"]
)
def test_what_must_be_clean_fails_when_it_is_not(broken: str) -> None:
    found = judge_programs(
        PART, exploration({TORN: (violation("torn careless"), violation(broken))})
    )

    assert [f"{each.program} {each.twin}".strip() for each in found if not each.passed] == [broken]


def test_what_only_a_torn_write_shows_is_missed_where_a_lost_one_should_show_it() -> None:
    part = Part(name="some", programs=("write-out-only",), states=1)
    broken = (violation("write-out-only careless"),)

    by_tearing = judge_programs(part, exploration({TORN: broken}))
    by_dropping = judge_programs(part, exploration({TORN: broken, DROPPED: broken}))

    assert [each.passed for each in by_tearing] == [False, True]
    assert [each.passed for each in by_dropping] == [True, True]


def test_a_missed_mistake_fails() -> None:
    found = judge_programs(PART, exploration({TORN: ()}))

    assert [each.program for each in found if not each.passed] == ["torn"]


def result(*, passed: bool, inconclusive: int = 0) -> SelftestResult:
    return SelftestResult(
        machine=MachineResult("scripted", "none", "6.12"),
        seed=0,
        passed=passed,
        programs=judge_programs(PART, exploration({TORN: (violation("torn careless"),) * passed})),
        harness=[HarnessOutcome("a check that exits 1", "violation", "1 violation", passed)],
        inconclusive=inconclusive,
        seconds=1.0,
    )


@pytest.mark.parametrize(
    ("outcome", "code", "words"),
    [
        (result(passed=True), 0, "1 mistakes caught, 3 programs clean"),
        (result(passed=False), 1, "not to be trusted"),
        (result(passed=True, inconclusive=2), 3, "2 crash states could not be decided"),
    ],
)
def test_exit_codes(
    monkeypatch: pytest.MonkeyPatch, outcome: SelftestResult, code: int, words: str
) -> None:
    monkeypatch.setattr(command, "choose_machine", lambda *_, **__: None)
    monkeypatch.setattr(command, "run_selftest", lambda *_, **__: outcome)

    ended = CliRunner().invoke(app, ["selftest"])

    assert ended.exit_code == code, ended.output
    assert words in ended.output


def test_a_machine_that_fails_is_no_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise InfrastructureError("there is no guest")

    monkeypatch.setattr(command, "choose_machine", lambda *_, **__: None)
    monkeypatch.setattr(command, "run_selftest", fail)

    ended = CliRunner().invoke(app, ["selftest"])

    assert isinstance(ended.exception, InfrastructureError)
    assert ended.exception.exit_code == 3


def test_programs_that_do_not_run_are_no_verdict(tmp_path: Path) -> None:
    def behave(guest: ScriptedGuest, argv: Sequence[str], on_mark: Mark | None) -> CommandResult:
        return scripted(returncode=int("run" in argv), stderr=b"no python3 here")

    machine = ScriptedMachine(ScriptedGuest(behave))

    with pytest.raises(ProgramsFailed, match="no python3 here") as raised:
        record_part(machine, PART, tmp_path, 0)

    assert raised.value.exit_code == 3

"""Crash during recovery: a fault that only a second cut shows, and a store that holds."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from crashsim.campaigns.options import NestedOptions, RunOptions
from crashsim.campaigns.run import run_campaign
from crashsim.campaigns.targets import CommandChoice, choose_target
from crashsim.disk.profile import parse_profile
from crashsim.faults.disturbances import Kind, make
from crashsim.machines.filesystems import parse_filesystem
from crashsim.machines.qemu import QemuMachine
from crashsim.workloads.git import GitWorkload
from crashsim.workloads.registry import TargetOptions
from tests.support.crashsim_command import Command, crashsim, read_json

pytestmark = pytest.mark.vm

STORE = r"""
case $1 in
put)
    echo "$2" >journal.new
    sync journal.new
    mv journal.new journal
    sync .
    crashsim-mark "$2"
    ;;
recover)
    test -e journal || exit 0
    dd if=journal of=value conv=notrunc$2 status=none
    rm journal
    sync .
    ;;
check)
    promised=$(tail -n 1 "$CRASHSIM_PROMISES")
    if test -e journal; then found=$(cat journal); else found=$(cat value); fi
    if test "$found" -ge "${promised:-0}"; then exit 0; fi
    echo "$promised was promised, $found is there"
    exit 1
    ;;
esac
"""
"""A value in a file, and a journal file that counts as long as it is there: under one cut there is
nothing wrong with it. `recover` puts it into its place, and syncs that only if it is told to."""


def run_store(directory: Path, recover: str, *more: str) -> tuple[int, Any, str]:
    (directory / "payload" / "bin").mkdir(parents=True, exist_ok=True)
    program = directory / "payload" / "bin" / "store"
    program.write_text(f"#!/bin/sh -e\n{STORE}")
    program.chmod(0o755)
    ended = crashsim(
        directory,
        # A superblock that is torn at 512 bytes does not mount: see docs/nested-crashes.md.
        *(
            "run",
            "--fs",
            "ext4",
            "--device",
            "4kn",
            "--payload",
            "payload",
            "--setup",
            "echo 0 >value; sync",
        ),
        *("--check", "store check", "--states", "12", "--jobs", "1", "--disturb", "none"),
        *("--depth", "2", "--recover", recover, "--recoveries", "2", "--nested-states", "200"),
        *("--json", "result.json", *more),
        *("--", "sh", "-ec", "store put 1; store put 2; store put 3"),
    )
    return ended.returncode, read_json(directory / "result.json"), ended.stdout + ended.stderr


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_recovery_that_forgets_its_journal_too_early_is_found_by_a_second_cut_only(
    machine: QemuMachine, tmp_path: Path
) -> None:
    code, result, told = run_store(tmp_path, "store recover")

    assert code == 1, told
    assert result["properties"]["durable"] == {"checked": 12, "violations": 0}
    nested = result["nested"]
    assert nested["recoveries"] == 2
    assert nested["properties"]["durable"]["violations"] > 0
    assert len(result["findings"]) == 1
    finding = result["findings"][0]
    assert finding["id"] == "nested-durable-check-failed"
    assert finding["step"] == "recover"
    assert finding["first_cut"]["cut"] > 0
    assert "was itself cut" in finding["explanation"][0]
    assert "in the recovery from a cut at event" in told
    page = next((tmp_path / "crashsim-out").glob("*/report.html")).read_text()
    assert "in the recovery from a cut at event" in page

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    bundle = shutil.copy(tmp_path / finding["bundle"], elsewhere / "case.crashsim")
    again = crashsim(elsewhere, "repro", str(bundle), "--json", "again.json")
    assert again.returncode == 1, again.stdout + again.stderr
    assert read_json(elsewhere / "again.json")["violations"][0]["rule"] == "check-failed"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_recovery_with_its_sync_holds(machine: QemuMachine, tmp_path: Path) -> None:
    code, result, told = run_store(tmp_path, "store recover ,fsync")

    assert code == 0, told
    nested = result["nested"]
    assert nested["properties"]["durable"] == {
        "checked": nested["states"]["explored"],
        "violations": 0,
    }
    assert nested["states"]["explored"] >= 20
    assert result["findings"] == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_recovery_that_fails_on_a_sound_disk_is_a_finding(
    machine: QemuMachine, tmp_path: Path
) -> None:
    code, result, told = run_store(tmp_path, "echo no; exit 3", "--recoveries", "1")

    assert code == 1, told
    assert result["properties"]["durable"]["violations"] == 0
    finding = result["findings"][0]
    assert (finding["property"], finding["rule"]) == ("usable", "recovery-failed")
    assert "exited with 3" in finding["detail"]
    assert "was itself cut" not in finding["explanation"][0]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_store_that_claims_everything_holds_through_a_cut_recovery_and_gc(
    machine: QemuMachine, tmp_path: Path
) -> None:
    chosen = choose_target(
        "impl",
        None,
        None,
        CommandChoice(),
        TargetOptions(fsync="all", method="paired-syncfs", sequence="commit"),
    )
    assert isinstance(chosen.workload, GitWorkload)
    first_commit = replace(chosen.workload, steps=chosen.workload.steps[:2])
    options = RunOptions(
        filesystem=parse_filesystem("ext4"),
        out=tmp_path,
        profile=parse_profile("4kn"),
        disturbances=make([Kind.FSYNC], 0),
        states=6,
        jobs=1,
        measure_cost=False,
        nested=NestedOptions(states=12, recoveries=1),
    )

    outcome = run_campaign(replace(chosen, workload=first_commit), options, machine=machine)

    nested = outcome.result.nested
    assert nested is not None
    assert (nested.recoveries, nested.states.explored, nested.inconclusive) == (1, 12, 0)
    assert 3 <= nested.mount_states <= 9
    assert nested.log.marks == 1, "gc returned, and what it left is promised"
    assert nested.each[0].promises > 0
    assert nested.each[0].pages_changed > 0
    assert [counts.violations for counts in nested.properties.values()] == [0] * 5
    assert outcome.cases == ()
    assert not (outcome.directory / "nested").exists()


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_an_interrupt_while_a_recovery_is_recorded_leaves_nothing_that_runs(
    machine: QemuMachine, tmp_path: Path
) -> None:
    command = Command(
        [
            *("run", "--fs", "ext4", "--check", "true", "--states", "4", "--jobs", "1"),
            *("--disturb", "none", "--depth", "2", "--recover", "sleep 250"),
            *("--", "sh", "-c", "echo 1 >value; sync"),
        ],
        tmp_path,
    ).start()
    events = tmp_path / "crashsim-out" / "command-ext4" / "nested" / "00001" / "events.bin"
    command.wait_until(lambda: events.is_file() and events.stat().st_size > 0)
    command.process.send_signal(2)
    ended = command.finish()

    assert ended.returncode == 130, ended.stderr
    assert command.others() == {}

import io
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from crashsim.machines.protocol import CommandResult, Mark
from crashsim.workloads.command import CommandWorkload, NoCommand, command_workload
from crashsim.workloads.protocol import Step, WorkloadFailed
from crashsim.workloads.registry import TargetOptions, UnknownTarget, make_target
from crashsim.workloads.staging import (
    PAYLOAD_BYTES_MAX,
    BadPayload,
    StagingFailed,
    put_files,
    put_payload,
)
from tests.support.scripted_guest import ScriptedGuest, result


def fail(guest: ScriptedGuest, argv: Sequence[str], on_mark: Mark | None) -> CommandResult:
    return result(1, b"tar: no space left")


def written(guest: ScriptedGuest) -> tarfile.TarFile:
    ((_, content),) = [call for name, call in guest.calls if name == "write_file"]
    return tarfile.open(fileobj=io.BytesIO(content))


def test_a_command_is_run_as_it_was_given() -> None:
    workload = command_workload(["my program", "--x", "a b"])

    (step,) = workload.steps
    assert step.argv == ("my program", "--x", "a b")
    assert step.directory == ""


def test_a_string_is_for_the_shell() -> None:
    (step,) = command_workload("a && b").steps

    assert step.argv == ("sh", "-c", "a && b")


@pytest.mark.parametrize("command", [[], "", [""]])
def test_no_command_is_refused(command: list[str] | str) -> None:
    with pytest.raises(NoCommand):
        command_workload(command)


def test_the_set_up_runs_in_the_root_with_the_payload_on_its_path() -> None:
    guest = ScriptedGuest()
    command_workload(["x"], setup="make-it").prepare(guest, "/mnt/0")

    assert guest.names() == ["run"]
    argv, cwd, environment = guest.calls[-1][1]
    assert argv == ("sh", "-c", "make-it")
    assert cwd == "/mnt/0"
    assert environment["PATH"].split(":")[0] == "/payload/bin"


def test_without_a_set_up_nothing_runs() -> None:
    guest = ScriptedGuest()
    command_workload(["x"]).prepare(guest, "/mnt/0")

    assert guest.names() == []


def test_steps_of_one_name_are_refused() -> None:
    with pytest.raises(NoCommand, match="'a'"):
        CommandWorkload.of_steps([Step("a", ("x",)), Step("a", ("y",))])
    with pytest.raises(NoCommand):
        CommandWorkload.of_steps([])


def test_a_failing_set_up_is_the_callers_fault() -> None:
    with pytest.raises(WorkloadFailed, match="--setup exited with 1") as failure:
        command_workload(["x"], setup="false").prepare(ScriptedGuest(fail), "/mnt/0")
    assert failure.value.exit_code == 2


def test_a_payload_keeps_modes_and_links_and_belongs_to_root(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "tool").chmod(0o755)
    (tmp_path / "bin" / "alias").symlink_to("tool")
    os.mkfifo(tmp_path / "pipe")
    guest = ScriptedGuest()
    put_payload(guest, tmp_path)

    members = {member.name: member for member in written(guest).getmembers()}
    assert sorted(members) == [".", "./bin", "./bin/alias", "./bin/tool"]
    assert members["./bin/tool"].mode == 0o755
    assert members["./bin/alias"].linkname == "tool"
    assert {(member.uid, member.uname) for member in members.values()} == {(0, "root")}


def test_a_payload_that_is_missing_or_too_large_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadPayload, match="no such directory"):
        put_payload(ScriptedGuest(), tmp_path / "missing")

    with (tmp_path / "large").open("wb") as file:
        file.truncate(PAYLOAD_BYTES_MAX + 1)
    with pytest.raises(BadPayload, match="256 MiB"):
        put_payload(ScriptedGuest(), tmp_path)


def test_files_that_do_not_unpack_are_a_failure_of_the_guest() -> None:
    with pytest.raises(StagingFailed, match="no space left") as failure:
        put_files(ScriptedGuest(fail), "/run/x", {"a": b"b"})
    assert failure.value.exit_code == 3


def test_files_arrive_with_their_contents() -> None:
    guest = ScriptedGuest()
    put_files(guest, "/run/x", {"a/b": b"one", "c": b""})

    archive = written(guest)
    assert {member.name: member.size for member in archive.getmembers()} == {"a/b": 3, "c": 0}


def test_a_target_is_made_with_its_options() -> None:
    workload = make_target("git", TargetOptions(fsync="all", sequence="commit", seed=3))

    assert workload.name == "git"
    assert workload.describe()["fsync"] == "all"
    assert [step.name for step in workload.steps][:2] == ["add-1", "commit-1"]


def test_an_unknown_target_is_told_the_known_ones() -> None:
    with pytest.raises(UnknownTarget, match="git"):
        make_target("svn", TargetOptions())

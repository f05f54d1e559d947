"""Docker as a machine: it conforms, it is unprivileged, and the daemon has nothing left of it."""

import os
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from crashsim.errors import UsageError
from crashsim.machines.docker import DockerMachine
from crashsim.machines.docker_daemon import LABEL, client, owner_label, reap
from crashsim.machines.docker_image import IMAGE_LABEL, remove_container_images
from crashsim.machines.failures import Cause, GuestDied
from crashsim.machines.qemu_guest import QemuGuest
from crashsim.machines.select import choose_machine
from tests.support.docker_daemon import NoDaemon, docker_daemon
from tests.vm.conformance import (
    CommandConformance,
    DeathConformance,
    FilesystemConformance,
    MarkConformance,
    disk,
    text,
)
from tests.vm.test_machine_qemu import wait_until_gone

pytestmark = pytest.mark.vm
__all__ = ["disk"]

EXAMPLE = Path(__file__).parents[2] / "examples/config-writer"
SECONDS = 60


def everything() -> tuple[list[str], list[str]]:
    """What `docker ps -a` and `docker volume ls` list."""
    containers = client().containers.list(all=True, ignore_removed=True)
    return sorted(one.id for one in containers), sorted(one.id for one in client().volumes.list())


def wait_until_everything_is(expected: object) -> None:
    deadline = time.monotonic() + SECONDS
    while everything() != expected:
        assert time.monotonic() < deadline, everything()
        time.sleep(0.05)


@pytest.fixture(scope="module")
def machine() -> Iterator[DockerMachine]:
    try:
        with docker_daemon():
            before = everything()
            yield DockerMachine()
            assert everything() == before
    except NoDaemon as error:
        warnings.warn(f"MACHINE DOCKER WAS NOT TESTED: {error}", stacklevel=1)
        pytest.skip(f"no containers on this host: {error}")


class TestCommands(CommandConformance):
    pass


class TestMarks(MarkConformance):
    pass


class TestFilesystems(FilesystemConformance):
    pass


class TestDeaths(DeathConformance):
    pass


@pytest.fixture
def guest(machine: DockerMachine) -> Iterator[QemuGuest]:
    with machine.start() as guest:
        yield guest


def container_of_this_process() -> Any:
    (container,) = client().containers.list(filters={"label": f"{LABEL}={owner_label()}"})
    return container


def test_its_name_is_docker(machine: DockerMachine, guest: QemuGuest) -> None:
    chosen = choose_machine("docker")

    assert isinstance(chosen, DockerMachine)
    assert machine.info.kind == guest.info.kind == chosen.info.kind == "docker"


def test_the_container_has_nothing_that_it_does_not_need(guest: QemuGuest) -> None:
    attributes = container_of_this_process().attrs
    host = attributes["HostConfig"]

    assert not host["Privileged"]
    assert host["CapDrop"] == ["ALL"]
    assert not host["CapAdd"]
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert attributes["Config"]["User"] == f"{os.geteuid()}:{os.getegid()}"
    if guest.info.accel == "tcg":
        assert not host["Devices"]


def test_a_container_is_gone_with_its_guest(machine: DockerMachine) -> None:
    before = everything()
    with machine.start() as guest:
        text(guest, "true")
        assert len(everything()[0]) == len(before[0]) + 1
        directories = os.listdir("/tmp")
    assert everything() == before
    assert not [name for name in directories if name.startswith("crashsim-docker-")]


def test_a_container_that_is_killed_is_told(guest: QemuGuest) -> None:
    container_of_this_process().kill()

    with pytest.raises(GuestDied) as died:
        text(guest, "sleep 1000")
    assert died.value.cause is Cause.GONE


PARENT = """
import sys, time
from crashsim.machines.docker import DockerMachine
guest = DockerMachine().start()
print(guest.process.pid, flush=True)
{ending}
"""


@pytest.mark.parametrize("ending", ["killed", "returns", "raises"])
def test_no_container_outlives_its_parent(machine: DockerMachine, ending: str) -> None:
    machine.snapshot()
    before = everything()
    code = {"killed": "time.sleep(1000)", "returns": "", "raises": "1 / 0"}[ending]
    with subprocess.Popen(
        [sys.executable, "-c", PARENT.format(ending=code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        process = int(parent.stdout.readline())
        if ending == "killed":
            assert len(everything()[0]) == len(before[0]) + 1
            parent.send_signal(signal.SIGKILL)
        parent.wait(SECONDS)
    wait_until_gone([process])
    wait_until_everything_is(before)


def test_what_was_created_and_never_started_is_removed_by_the_next(
    machine: DockerMachine,
) -> None:
    before = everything()
    dead = owner_label().rpartition("-")[0] + "-1"  # our number, at another time
    for owner in (dead, owner_label(), "not one of ours"):
        client().containers.create(
            machine._container_image.identity, ["true"], labels={LABEL: owner}
        )

    assert reap() == 1
    left = client().containers.list(all=True, filters={"label": LABEL})
    assert {one.labels[LABEL] for one in left} == {owner_label(), "not one of ours"}
    for one in left:
        one.remove()
    assert everything() == before


def test_without_a_daemon_there_is_one_line(
    machine: DockerMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "from crashsim.machines.docker import DockerMachine; DockerMachine()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "DOCKER_HOST": "unix:///nowhere"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert "MachineUnusable: no Docker daemon answers (" in done.stderr.splitlines()[-1]


def test_an_unknown_machine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match="docker"):
        choose_machine("doker")


def test_a_run_in_containers_finds_the_fault_of_the_example(
    machine: DockerMachine, tmp_path: Path
) -> None:
    before = everything()
    command = [sys.executable, "-m", "crashsim.cli", "run", "--machine", "docker", "--fs", "ext4"]
    command += ["--payload", str(EXAMPLE), "--check", "config-check", "--out", str(tmp_path)]

    done = subprocess.run(
        [*command, "--states", "40", "--", "config-write", "--naive"],
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )

    assert done.returncode == 1, done.stdout + done.stderr
    assert everything() == before


def test_image_rm_all_takes_the_daemons_image_too(machine: DockerMachine) -> None:
    """The last one here: whoever comes next builds it again."""
    before = everything()
    ours = {"label": IMAGE_LABEL}
    assert client().images.list(filters=ours)

    assert remove_container_images() >= 1
    assert not client().images.list(filters=ours)
    assert remove_container_images() == 0
    assert everything() == before

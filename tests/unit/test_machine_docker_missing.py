"""--machine docker where there is no Docker: one clear line, before anything is built."""

import sys

import pytest

from crashsim.machines import docker_daemon
from crashsim.machines.failures import MachineUnusable
from crashsim.machines.select import choose_machine


@pytest.fixture(autouse=True)
def _no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_daemon, "_clients", type("Clients", (), {})())


def test_without_its_python_package(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "docker"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "docker", None)

    with pytest.raises(MachineUnusable, match="needs the Python package docker"):
        choose_machine("docker")


def test_without_a_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("docker")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")

    with pytest.raises(MachineUnusable, match="no Docker daemon answers") as refused:
        choose_machine("docker")
    assert "\n" not in str(refused.value)

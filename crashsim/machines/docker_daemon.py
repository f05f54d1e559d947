"""The Docker daemon: finding it, and removing what a dead process has left with it."""

import os
import threading
from typing import TYPE_CHECKING, Any

from crashsim.faults.dm import owners
from crashsim.machines.failures import MachineUnusable

if TYPE_CHECKING:
    from docker import DockerClient

LABEL = "crashsim.owner"
"""On every container: the process that it belongs to."""

TIMEOUT_SECONDS = 120
_clients = threading.local()


def client() -> "DockerClient":
    """A connection to the daemon, one for each thread. Raises MachineUnusable, in one line.

    The environment says where it is: DOCKER_HOST and the like, as for docker(1).
    """
    known = getattr(_clients, "known", None)
    if known is None or known[0] != os.getpid():
        known = (os.getpid(), _connect())
        _clients.known = known
    connected: DockerClient = known[1]
    return connected


def _connect() -> "DockerClient":
    try:
        # Half a second to import, and only this kind of machine needs it.
        import docker
    except ImportError as error:
        raise MachineUnusable(
            "--machine docker needs the Python package docker: pip install 'crashsim[docker]'"
        ) from error
    try:
        connected = docker.from_env(timeout=TIMEOUT_SECONDS)
        connected.ping()
    except docker.errors.DockerException as error:
        raise MachineUnusable(
            f"no Docker daemon answers ({error}): install the Debian package docker.io, start "
            "dockerd, and be in the group docker"
        ) from error
    return connected


def owner_label() -> str:
    """This process, as LABEL has it."""
    return "-".join(str(number) for number in owners.this_process())


def reap() -> int:
    """Remove the containers of processes that are dead, in this pid namespace; how many.

    A running container ends with its process and is removed by the daemon; left behind can only be
    one that was created and never started.
    """
    from docker.errors import NotFound

    count = 0
    for container in client().containers.list(
        all=True, filters={"label": LABEL}, ignore_removed=True
    ):
        owner = _owner(container.labels[LABEL])
        if owner and owner.namespace == owners.namespace() and not owner.lives:
            try:
                container.remove(force=True, v=True)
            except NotFound:
                continue  # the daemon was first
            count += 1
    return count


def _owner(label: str) -> owners.Owner | None:
    numbers = label.split("-")
    if len(numbers) != len(owners.Owner._fields) or not all(map(str.isdecimal, numbers)):
        return None
    return owners.Owner(*map(int, numbers))


def is_conflict(error: Any) -> bool:
    """Whether the daemon is removing the container already: HTTP status 409."""
    return getattr(error, "status_code", None) == 409

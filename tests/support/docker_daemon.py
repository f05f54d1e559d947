"""A Docker daemon for tests: the one that runs, or one of our own that leaves nothing behind."""

import contextlib
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

START_SECONDS = 90
STOP_SECONDS = 60


class NoDaemon(Exception):
    """There is no daemon, and none can be started here."""


@contextlib.contextmanager
def docker_daemon() -> Iterator[None]:
    """While the context lasts DOCKER_HOST leads to a daemon. Raises NoDaemon."""
    if _answers():
        yield
        return
    if shutil.which("dockerd") is None:
        raise NoDaemon("no Docker daemon runs and dockerd is not installed (Debian: docker.io)")
    if os.geteuid() != 0:
        raise NoDaemon("no Docker daemon runs, and only root can start one")
    with tempfile.TemporaryDirectory(prefix="dockerd-") as place, _started(Path(place)) as host:
        before = os.environ.get("DOCKER_HOST")
        os.environ["DOCKER_HOST"] = host
        try:
            yield
        finally:
            if before is None:
                del os.environ["DOCKER_HOST"]
            else:
                os.environ["DOCKER_HOST"] = before


@contextlib.contextmanager
def _started(place: Path) -> Iterator[str]:
    host = f"unix://{place}/socket"
    command = [
        *("setpriv", "--pdeathsig", "TERM", "--", "dockerd", "--host", host),
        *("--data-root", f"{place}/data", "--exec-root", f"{place}/exec"),
        *("--pidfile", f"{place}/pid", "--iptables=false", "--ip6tables=false", "--bridge=none"),
    ]
    with (
        (place / "log").open("wb") as log,
        subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log) as process,
    ):
        try:
            deadline = time.monotonic() + START_SECONDS
            while not _answers(host):
                if process.poll() is not None or time.monotonic() > deadline:
                    words = (place / "log").read_text("utf-8", "replace")[-1000:]
                    raise NoDaemon(f"dockerd does not start here: {words}")
                select.select([], [], [], 0.2)
            yield host
        finally:
            process.terminate()
            process.wait(STOP_SECONDS)


def _answers(host: str = "") -> bool:
    import docker

    try:
        environment = {**os.environ, "DOCKER_HOST": host} if host else None
        with contextlib.closing(docker.from_env(environment=environment, timeout=10)) as client:
            return bool(client.ping())
    except docker.errors.DockerException:
        return False

"""A Docker daemon for tests: the one that runs, or one of our own that leaves nothing behind."""

import contextlib
import io
import os
import select
import shutil
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

START_SECONDS = 90
STOP_SECONDS = 60
PROBE = "crashsim-probe"


class NoDaemon(Exception):
    """There is no daemon that runs containers, and none can be started here."""


@contextlib.contextmanager
def docker_daemon() -> Iterator[None]:
    """While the context lasts DOCKER_HOST leads to a daemon. Raises NoDaemon."""
    if _answers():
        _check_that_containers_run()
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
            _check_that_containers_run()
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


def _check_that_containers_run() -> None:
    """An empty container gets as far as to find no program in it, where containers run at all."""
    import docker

    empty = io.BytesIO()
    with tarfile.open(fileobj=empty, mode="w"):
        pass
    with contextlib.closing(docker.from_env()) as client:
        client.api.import_image_from_data(empty.getvalue(), repository=PROBE, tag="1")
        container = client.containers.create(f"{PROBE}:1", ["/no-such-program"])
        try:
            container.start()
        except docker.errors.APIError as error:
            if "no such file or directory" not in str(error):
                raise NoDaemon(f"the Docker daemon cannot run containers: {error}") from error
        finally:
            container.remove(force=True)
            client.images.remove(f"{PROBE}:1")


def _answers(host: str = "") -> bool:
    import docker

    try:
        environment = {**os.environ, "DOCKER_HOST": host} if host else None
        with contextlib.closing(docker.from_env(environment=environment, timeout=10)) as client:
            return bool(client.ping())
    except docker.errors.DockerException:
        return False

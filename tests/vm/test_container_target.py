"""A containerised program's volume on the crash disk: `--target docker`."""

import io
import subprocess
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest

from crashsim.campaigns.prepared_machine import with_payload
from crashsim.disk.recording_disk import MemoryDisk
from crashsim.machines.filesystems import FILESYSTEMS
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.protocol import CommandResult, Guest
from crashsim.machines.qemu import QemuMachine
from crashsim.workloads.container import ContainerChoice, container_workload
from tests.support.container_images import (
    NOTE_APP,
    Layer,
    directory,
    layer_archive,
    link,
    oci_layout,
    saved,
)
from tests.support.docker_daemon import NoDaemon, docker_daemon

pytestmark = pytest.mark.vm

EXT4 = FILESYSTEMS["ext4"]
NOTES: Layer = {"app": NOTE_APP, "data": directory("data")}

SHOW = b"""#!/.crashsim/busybox sh
b=/.crashsim/busybox
echo "as $($b id -u):$($b id -g) in $($b pwd) with $WORD given $* process $$"
echo "volume $($b stat -c '%u %a' /data) seed $($b cat /data/seed) path $PATH"
echo guest $($b ls /payload 2>/dev/null || echo unseen) root /*
echo from inside >/data/made
"""
SHOWN: Layer = {
    "opt": directory("opt"),
    "opt/show": SHOW,
    "usr": directory("usr"),
    "usr/bin": directory("usr/bin"),
    "usr/bin/ls": link("usr/bin/ls", "/opt/show"),  # a name that the shell in there has, too
    "data": directory("data", 0o700, uid=999),
    "data/seed": b"of the image",
    "etc": directory("etc"),
    "etc/passwd": b"app:x:999:998::/:/bin/sh\n",
}


def crashsim_run(image: Path, out: Path, arguments: Sequence[str], states: int) -> "Done":
    command = [sys.executable, "-m", "crashsim.cli", "run", "--target", "docker", "--fs", "ext4"]
    command += ["--image", str(image), "--volume", "/data", "--check", "in-container verify"]
    # Nobody else syncs: what the program does not, is lost.
    command += ["--disturb", "none", "--states", str(states), "--out", str(out), "--", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)


Done = subprocess.CompletedProcess[str]


def in_guest(guest: Guest, *arguments: str, directory: str = "/mnt/0") -> CommandResult:
    return guest.run(["/payload/bin/in-container", *arguments], cwd=directory, timeout_seconds=60)


def test_a_container_is_what_its_image_says(machine: QemuMachine, tmp_path: Path) -> None:
    image = oci_layout(
        tmp_path / "image",
        [SHOWN],
        Entrypoint=["ls"],
        Cmd=["the default"],
        Env=["WORD=it's a word", "PATH=/bin:/usr/bin"],
        WorkingDir="/opt",
        User="app",
    )
    workload = container_workload(ContainerChoice(image, "/data"))
    disk = MemoryDisk(CRASH_DISK_BYTES)
    with with_payload(machine, workload.payload).start() as guest:
        guest.attach(0, disk)
        guest.format(0, EXT4.fstype, EXT4.mkfs_argv)
        guest.mount(EXT4.mount(0))
        workload.prepare(guest, "/mnt/0")
        first, second = in_guest(guest), in_guest(guest, "two", "words")
        made = guest.run(["cat", "/mnt/0/volume/made"]).stdout
        mounts = guest.run(["cat", "/proc/mounts"]).stdout
    disk.close()

    lines = first.stdout.decode().splitlines()
    assert lines[0] == "as 999:998 in /opt with it's a word given the default process 1", first
    assert lines[1] == "volume 999 700 seed of the image path /bin:/usr/bin:/.crashsim"
    assert lines[2] == "guest unseen root /data /dev /etc /opt /proc /tmp /usr"
    assert "given two words process" in second.stdout.decode()
    assert made == b"from inside\n"
    assert b"crashsim-container" not in mounts  # what it had mounted went with it


def test_a_volume_that_is_synced_survives(tmp_path: Path) -> None:
    image = oci_layout(tmp_path / "image", [NOTES], Entrypoint=["/app"])
    done = crashsim_run(image, tmp_path / "out", ["careful"], 30)

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_volume_of_an_image_that_docker_has_saved_is_lost(tmp_path: Path) -> None:
    """Where there is no Docker the file is one of our own, and that is said."""
    image = tmp_path / "app.tar"
    try:
        with docker_daemon():
            _build_and_save(image)
    except NoDaemon as error:
        warnings.warn(f"NO IMAGE OF DOCKER'S OWN WAS TESTED: {error}", stacklevel=1)
        saved(image, [NOTES], Entrypoint=["/app"])
    done = crashsim_run(image, tmp_path / "out", [], 20)

    assert done.returncode == 1, done.stdout + done.stderr
    assert "lost: version 2" in done.stdout


def _build_and_save(target: Path) -> None:
    """`docker build` from scratch and `docker save`, by the daemon's own interface."""
    import docker

    client = docker.from_env()
    context: Layer = {
        "Dockerfile": b'FROM scratch\nCOPY app /app\nVOLUME /data\nENTRYPOINT ["/app"]\n',
        "app": NOTE_APP,
    }
    built, _ = client.images.build(
        fileobj=io.BytesIO(layer_archive(context)), custom_context=True, tag="crashsim-note:1"
    )
    try:
        with target.open("wb") as file:
            for piece in built.save(named=True):
                file.write(piece)
    finally:
        client.images.remove(built.id, force=True)
        client.close()


def test_an_image_that_is_none_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "app.tar").write_bytes(b"nothing")
    done = crashsim_run(tmp_path / "app.tar", tmp_path / "out", [], 1)

    assert done.returncode == 2
    assert "app.tar: a damaged archive" in done.stderr

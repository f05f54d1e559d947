"""A containerised program as a workload: its volume is on the crash disk.

The image is a file (`container_image`); there is neither a registry nor a Docker daemon. In the
guest its program runs as `docker run --network none -v volume:PATH` would run it, as far as a
volume's fate goes: its own root, mounts and processes, the image's environment, user and working
directory. What else containers are (cgroups, seccomp, fewer capabilities) decides nothing about
what a power cut leaves, and is left out.

The image travels as a payload, `image.tar` with the program `in-container` beside it, so whatever
takes payloads (bundles, replays) takes containers as well.
"""

import shlex
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from crashsim.errors import UsageError
from crashsim.workloads.command import CommandWorkload
from crashsim.workloads.container_image import ImageConfig, join_image
from crashsim.workloads.container_root import BadImage
from crashsim.workloads.protocol import Step

PROGRAM = "in-container"
VOLUME_DIRECTORY = "volume"
"""The volume, on the crash disk: beside it is only what the filesystem itself puts there."""

OWN_DIRECTORY = "/.crashsim"
"""In the container: what the image need not have. `crashsim-mark` is there, last on PATH."""

DEFAULT_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STEP_SECONDS = 600.0

_SCRIPT = """#!/bin/busybox sh
# in-container [ARGUMENT]...: the image's program, with the volume of the filesystem in the working
# directory. in-container --prepare: make that volume, as the image has it.
set -eu
root=/run/crashsim-container
volume=$PWD/{directory}
if [ ! -d $root ]; then
    mkdir $root.new
    tar -xpf /payload/image.tar -C $root.new --numeric-owner
    rm /payload/image.tar
    mkdir -p $root.new{own}/marks
    cp /bin/busybox $root.new{own}/busybox
    sed '1s,/bin/busybox,{own}/busybox,; s,/run/crashsim/marks,{own}/marks,g' \\
        /usr/local/bin/crashsim-mark >$root.new{own}/crashsim-mark
    chmod 755 $root.new{own}/crashsim-mark
    mv $root.new $root
fi
if [ "${{1:-}}" = --prepare ]; then
    cp -a $root{volume} "$volume" # what the image has there, and its owner and mode
    exit 0
fi
[ $# -gt 0 ] || set -- {command}
set -- {entrypoint} "$@"
# A name is looked up here: the shell in there would take its own applet of that name.
case $1 in */*) ;; *)
    name=$1
    shift
    for place in {path}; do
        if [ -e "$root$place/$name" ] || [ -L "$root$place/$name" ]; then
            set -- "$place/$name" "$@"
            name=
            break
        fi
    done
    [ -z "$name" ] || {{ echo "in-container: no $name on the image's PATH" >&2; exit 127; }}
    ;;
esac
promises=${{CRASHSIM_PROMISES:-}}
export root volume promises
exec /usr/bin/unshare --mount --pid --fork --kill-child -- /bin/busybox sh -euc '
    mount --bind "$volume" $root{volume}
    mount -t proc proc $root/proc
    mount -t tmpfs -o mode=0755 dev $root/dev
    for node in null zero full random urandom tty; do
        : >$root/dev/$node
        mount --bind /dev/$node $root/dev/$node
    done
    mkdir -m 1777 $root/dev/shm
    ln -s /proc/self/fd $root/dev/fd
    mount --bind /run/crashsim/marks $root{own}/marks
    set -- {own}/busybox sh -c "cd \\"\\$0\\" && exec \\"\\$@\\"" {workdir} "$@"
    if [ -n "$promises" ]; then
        cp "$promises" $root{own}/promises
        set -- CRASHSIM_PROMISES={own}/promises "$@"
    fi
    exec /usr/sbin/chroot --userspec={user} $root {own}/busybox env -i {environment} "$@"
' in-container "$@"
"""


class NoVolume(UsageError):
    """It is not known which path of the container is the volume."""


@dataclass(frozen=True, slots=True)
class ContainerChoice:
    """What the command line says about a container.

    :ivar image: a file of `docker save`, an OCI layout as file or directory, or a root directory.
    :ivar volume: the path in the container; not needed where the image names one volume itself.
    :ivar arguments: in the place of the image's own CMD.
    """

    image: Path
    volume: str | None = None
    arguments: tuple[str, ...] = ()


@dataclass(frozen=True)
class ContainerWorkload(CommandWorkload):
    """A `CommandWorkload` whose payload was made of an image, and lives as long as this does."""

    name: str = "docker"
    image: str = ""
    volume: str = ""
    directory: "tempfile.TemporaryDirectory[str] | None" = field(default=None, compare=False)

    def describe(self) -> dict[str, object]:
        """The image's file name and the volume, beside the set-up."""
        return {**super().describe(), "image": self.image, "volume": self.volume}


def container_workload(choice: ContainerChoice) -> ContainerWorkload:
    """The workload that runs the image's program once. Raises BadImage and NoVolume."""
    directory = tempfile.TemporaryDirectory(prefix="crashsim-container-")
    payload = Path(directory.name) / "payload"
    (payload / "bin").mkdir(parents=True)
    volume = choice.volume
    with (payload / "image.tar").open("wb") as archive:
        config = join_image(choice.image, archive, mount_points(volume))
    if volume is None:
        volume = _only_volume(config)
        with (payload / "image.tar").open("wb") as archive:
            join_image(choice.image, archive, mount_points(volume))
    if not (config.entrypoint or config.command or choice.arguments):
        raise BadImage(f"{choice.image} names no program to run: write one after --")
    script = payload / "bin" / PROGRAM
    script.write_text(in_container(config, volume))
    script.chmod(0o755)
    step = Step("container", (PROGRAM, *choice.arguments), timeout_seconds=STEP_SECONDS)
    workload = ContainerWorkload(
        setup=(PROGRAM, "--prepare"),
        steps=(step,),
        payload=payload,
        image=choice.image.name,
        volume=volume,
        directory=directory,
    )
    weakref.finalize(workload, directory.cleanup)
    return workload


def mount_points(volume: str | None) -> Sequence[str]:
    """What must be directories in the container."""
    own = ("/proc", "/dev", "/tmp", OWN_DIRECTORY)
    return own if volume is None else (*own, volume)


def in_container(config: ImageConfig, volume: str) -> str:
    """The program that runs the image's program in a guest; every word of the image's is quoted."""
    if volume.strip("/") == "" or any(character in volume for character in "'\n\"\\$` "):
        raise NoVolume(f"--volume {volume!r}: a plain path in the container, not its root")
    paths = [word for word in config.environment if word.startswith("PATH=")]
    path = f"{paths[-1] if paths else DEFAULT_PATH}:{OWN_DIRECTORY}"
    environment = [*(word for word in config.environment if word not in paths), path]
    return _SCRIPT.format(
        directory=VOLUME_DIRECTORY,
        own=OWN_DIRECTORY,
        volume=volume.rstrip("/"),
        command=shlex.join(config.command),
        entrypoint=shlex.join(config.entrypoint),
        user=config.user,
        workdir=_twice(config.directory),
        path=" ".join(map(shlex.quote, path.removeprefix("PATH=").split(":"))),
        environment=" ".join(map(_twice, environment)),
    )


def _twice(word: str) -> str:
    """A word for the inner shell, whose program is itself in single quotes."""
    return shlex.quote(word).replace("'", "'\\''")


def _only_volume(config: ImageConfig) -> str:
    if len(config.volumes) != 1:
        told = ", ".join(config.volumes) or "none"
        raise NoVolume(f"say by --volume which path is on the crash disk; the image names {told}")
    return config.volumes[0]

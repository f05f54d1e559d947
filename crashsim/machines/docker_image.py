"""The container image: QEMU, its firmware and libraries, and a Python to start it with.

Made from nothing by mmdebstrap, out of the packages that the host's apt gets, and imported into the
daemon: no registry has a part in it. Packages are unpacked and not configured, so there is neither
a package database nor a shell in it.
"""

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import xxhash

from crashsim.machines.docker_daemon import client
from crashsim.machines.failures import MachineUnusable
from crashsim.machines.images import cache
from crashsim.machines.images.mmdebstrap import (
    BuildProgress,
    ImageBuildFailed,
    Progress,
    check_tools,
    host_apt_settings,
    namespaces,
)

REPOSITORY = "crashsim-qemu"
IMAGE_LABEL = "crashsim.image"
"""On the image: the digest of its content."""

SUITE = "trixie"
PACKAGES = ("base-files", "qemu-system-x86", "python3-minimal")
"""base-files has the links from /lib64 to /usr/lib64, where the loader is looked for."""

EXCLUDED = ("/usr/share/doc/*", "/usr/share/locale/*", "/usr/share/man/*", "/usr/share/info/*")
FORMAT = 1
FIXED_TIME_SECONDS = 1_750_000_000
"""No file is younger: two builds from the same packages are then equal (mmdebstrap(1))."""

_FIXED_TIME = {"SOURCE_DATE_EPOCH": str(FIXED_TIME_SECONDS)}
_SAID_BYTES = 4000
_CHUNK_BYTES = 1 << 22


def image_tag() -> str:
    """The image's name; other contents, another name."""
    digest = xxhash.xxh3_128_hexdigest(repr((FORMAT, SUITE, PACKAGES, EXCLUDED)).encode())
    return f"{REPOSITORY}:{digest[:16]}"


@dataclass(frozen=True, slots=True)
class ContainerImage:
    """An image that the daemon has.

    :ivar identity: the daemon's id of it: another one for each import.
    :ivar content: a digest of what is in it: boot snapshots are good for equal contents.
    """

    identity: str
    content: str


def find_or_build_container_image(progress: Progress | None = None) -> ContainerImage:
    """The image: the daemon has it already, or it is built now, in half a minute or so.

    Raises MachineUnusable without a daemon, ImageBuildFailed.
    """
    tell = progress or (lambda _: None)
    found = _find()
    if found is not None:
        return found
    check_tools()

    def waiting() -> None:
        tell(BuildProgress("waiting for another build", 0.0))

    with cache.building_lock(waiting):
        found = _find()
        if found is not None:
            return found
        with tempfile.TemporaryDirectory(prefix="crashsim-container-") as scratch:
            os.chmod(scratch, 0o711)  # mapped users must get through
            tell(BuildProgress("making the container image", 0.1))
            archive = Path(scratch) / "root.tar"
            _run_mmdebstrap(archive, scratch)
            tell(BuildProgress("importing the container image", 0.9))
            repository, _, tag = image_tag().partition(":")
            label = f"LABEL {IMAGE_LABEL}={_digest(archive)}"
            client().api.import_image_from_file(
                str(archive), repository=repository, tag=tag, changes=[label]
            )
    built = _find()
    if built is None:
        raise ImageBuildFailed("the container image that was just imported has been removed")
    tell(BuildProgress("done", 1.0))
    return built


def remove_container_images() -> int:
    """Remove every image of ours that the daemon has, also those of older versions; how many.

    None where there is no daemon. Raises MachineUnusable while a container still uses one.
    """
    try:
        connected = client()
    except MachineUnusable:
        return 0
    from docker.errors import APIError, ImageNotFound

    count = 0
    for image in connected.images.list(filters={"label": IMAGE_LABEL}):
        try:
            connected.images.remove(image.id, force=len(image.tags) > 1)
        except ImageNotFound:
            continue  # another process was first
        except APIError as error:
            raise MachineUnusable(f"the Docker daemon keeps {image.tags}: {error}") from error
        count += 1
    return count


def _find() -> ContainerImage | None:
    connected = client()  # first, since it tells of a missing package
    from docker.errors import ImageNotFound

    try:
        image = connected.images.get(image_tag())
    except ImageNotFound:
        return None
    return ContainerImage(str(image.id), image.labels.get(IMAGE_LABEL, str(image.id)))


def _digest(archive: Path) -> str:
    digest = xxhash.xxh3_128()
    with archive.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _run_mmdebstrap(archive: Path, scratch: str) -> None:
    command = [
        *("setpriv", "--pdeathsig", "KILL", "--", *namespaces()),
        *("mmdebstrap", "--quiet", "--mode=root", "--variant=extract", "--format=tar"),
        f"--include={','.join(PACKAGES)}",
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--aptopt={setting}" for setting in host_apt_settings()),
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED),
        *(SUITE, str(archive)),
    ]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "TMPDIR": scratch, "LC_ALL": "C.UTF-8", **_FIXED_TIME},
        start_new_session=True,
        check=False,
    )
    if done.returncode != 0:
        said = done.stderr[-_SAID_BYTES:].decode("utf-8", "replace").strip()
        raise ImageBuildFailed(
            f"mmdebstrap could not build the container image, exit status {done.returncode}: check "
            f"the network and the space in TMPDIR. Its last words:\n{said}"
        )

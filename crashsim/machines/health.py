"""Whether this host can run guests, and what stands in the way: the substance of `doctor`."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from crashsim.errors import InfrastructureError
from crashsim.machines import docker_daemon
from crashsim.machines.accelerator import choose_accelerator
from crashsim.machines.images.cache import (
    ImageDamaged,
    cache_directory,
    image_digests,
    load_image,
    snapshots_directory,
)
from crashsim.machines.images.recipe import ImageSpec, read_recipe
from crashsim.machines.qemu_process import qemu_version
from crashsim.machines.vagrant_vm import VagrantVm

MEMORY_BYTES_MIN = 1 << 30
CACHE_BYTES_MIN = 3 << 30
BUILD_TOOLS = {"mmdebstrap": "mmdebstrap", "genext2fs": "genext2fs"}


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    :ivar needed: runs are impossible while it is not `ok`.
    :ivar detail: what was found, and what to do about it where it is bad.
    """

    name: str
    ok: bool
    needed: bool
    detail: str


def examine() -> list[Check]:
    """Look at everything; nothing is built or changed, but KVM is tried if an image is there."""
    return list(_checks())


def runs_are_possible(checks: list[Check]) -> bool:
    """Whether everything that is needed is there."""
    return all(check.ok for check in checks if check.needed)


def _checks() -> Iterator[Check]:
    yield _qemu()
    yield _program("setpriv", "util-linux", needed=True)
    image = _image()
    yield image
    for program, package in BUILD_TOOLS.items():
        # Only to build an image with: with one in the cache nobody needs it.
        yield _program(program, package, needed=not image.ok)
    yield _accelerator()
    yield _memory()
    yield _cache()
    yield _snapshots()
    yield _other_machine("docker", _docker)
    yield _other_machine("vagrant", _vagrant)


def _qemu() -> Check:
    try:
        return Check("QEMU", True, True, qemu_version())
    except InfrastructureError as error:
        return Check("QEMU", False, True, str(error))


def _program(name: str, package: str, *, needed: bool) -> Check:
    path = shutil.which(name)
    return Check(name, path is not None, needed, path or f"install the Debian package {package}")


def _image() -> Check:
    name = "guest image"
    digest = read_recipe(ImageSpec()).digest
    try:
        image = load_image(digest)
    except ImageDamaged as error:
        return Check(name, False, True, str(error))
    if image is None:
        detail = "not built yet: the first run does that, or `crashsim image build`"
        return Check(name, False, False, detail)
    suite = image.manifest.recipe.suite
    return Check(name, True, False, f"{digest[:12]}: Debian {suite}, kernel {image.kernel_release}")


def _accelerator() -> Check:
    name = "accelerator"
    try:
        image = load_image(read_recipe(ImageSpec()).digest)
        if image is None:
            return Check(name, False, False, "untried: that takes an image's kernel")
        accelerator, reason = choose_accelerator(image.kernel)
    except InfrastructureError as error:
        return Check(name, False, False, str(error))
    slow = "" if accelerator == "kvm" else "; everything works, five to twenty times slower"
    return Check(name, accelerator == "kvm", False, f"{accelerator}: {reason}{slow}")


def _memory() -> Check:
    lines = Path("/proc/meminfo").read_text().splitlines()
    fields = {line.split(":")[0]: line.split()[1] for line in lines}
    available = int(fields["MemAvailable"]) << 10
    detail = f"{available >> 20} MiB available; each guest takes up to 600"
    return Check("memory", available >= MEMORY_BYTES_MIN, False, detail)


def _cache() -> Check:
    directory = cache_directory()
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    free = shutil.disk_usage(existing).free
    writable = os.access(existing, os.W_OK)
    used = _size(directory)
    detail = f"{directory}: {used >> 20} MiB used, {free >> 20} MiB free"
    if not writable:
        return Check("cache", False, True, f"{detail}, not writable; set CRASHSIM_CACHE_DIR")
    return Check("cache", free >= CACHE_BYTES_MIN, False, detail)


def _snapshots() -> Check:
    count = sum(1 for _ in snapshots_directory().glob("*/*/devices"))
    images = len(image_digests())
    detail = (
        f"{count}, of {images} images; a new image, payload or crashsim boots once and adds one"
    )
    return Check("boot snapshots", count > 0, False, detail)


def _other_machine(name: str, look: Callable[[], str]) -> Check:
    """A kind of machine that nobody needs who has QEMU: what there is of it, or what is missing."""
    try:
        return Check(f"--machine {name}", True, False, look())
    except InfrastructureError as error:
        return Check(f"--machine {name}", False, False, str(error))


def _docker() -> str:
    return f"Docker {docker_daemon.client().version()['Version']}"


def _vagrant() -> str:
    VagrantVm()
    return "the Vagrant VM is running"


def _size(directory: Path) -> int:
    return sum(
        os.lstat(os.path.join(place, name)).st_blocks * 512
        for place, _, names in os.walk(directory)
        for name in names
    )

"""Building a guest image with mmdebstrap: as root, or as anybody who may use user namespaces.

mmdebstrap runs in mount and process namespaces of its own, below a user namespace where we are not
root. When its first process is killed the kernel ends all the others and unmounts everything, so
no way of dying leaves a mount behind. Files may stay: while an image is being built the cache holds
a `.building-…` directory, and a scratch directory lies where temporary files go, because the users
that the namespace maps cannot get into a private home. Both end with the build; what a killed one
left is removed by the next.
"""

import os
import re
import secrets
import shlex
import shutil
import struct
import subprocess
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from crashsim.errors import InfrastructureError, UsageError
from crashsim.machines.images import cache
from crashsim.machines.images.cache import Image, Manifest
from crashsim.machines.images.initramfs import base_initramfs
from crashsim.machines.images.recipe import ImageSpec, Recipe, read_recipe

_SCRATCH_BYTES = 1_500_000_000
_CACHE_BYTES = 800_000_000
_SCRATCH_NAME = re.compile(r"crashsim-image-[0-9a-f]{16}")
_LOG_LINES = 25

_TOOLS = {
    "mmdebstrap": "mmdebstrap",
    "genext2fs": "genext2fs",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "apt-config": "apt",
}
"""Program to the Debian package that has it."""

_APT_SETTINGS = (
    "Acquire::http",
    "Acquire::https",
    "Acquire::Retries",
    "Acquire::Check-Date",
    "Acquire::Check-Valid-Until",
)

_PHASES = (
    ("running apt-get update", "reading package lists", 0.02),
    ("downloading packages", "downloading packages", 0.10),
    ("extracting archives", "unpacking essential packages", 0.25),
    ("installing essential", "installing essential packages", 0.30),
    ("installing remaining", "installing packages", 0.40),
    ("running --customize-hook", "taking kernel and modules", 0.85),
    ("cleaning package lists", "cleaning up", 0.88),
    ("creating tarball", "making the file system", 0.90),
)
"""What mmdebstrap prints, what we call it, and the share of the time that has passed by then."""


class ImageBuildFailed(InfrastructureError):
    """mmdebstrap did not give an image."""


class KernelError(UsageError):
    """A kernel of the user's own that cannot be booted."""


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """How far a build is.

    :ivar phase: what goes on, for people.
    :ivar fraction: share of the expected time that has passed, 0 to 1.
    """

    phase: str
    fraction: float


Progress = Callable[[BuildProgress], None]


def find_or_build_image(spec: ImageSpec, progress: Progress | None = None) -> Image:
    """The image that `spec` describes: from the cache, or built now, which takes about a minute.

    Raises RecipeError, KernelError, ImageDamaged, and ImageBuildFailed or another
    InfrastructureError when it cannot be built.
    """
    recipe = read_recipe(spec)
    release = kernel_release(spec.kernel) if spec.kernel is not None else ""
    image = cache.load_image(recipe.digest) or _build(recipe, progress or (lambda _: None))
    if spec.kernel is None:
        return image
    return replace(image, kernel=spec.kernel, kernel_release=release)


def kernel_release(path: Path) -> str:
    """The release that a bzImage says it is. Raises KernelError if it is none.

    The header is described in Documentation/arch/x86/boot.rst of the Linux source.
    """
    try:
        with path.open("rb") as stream:
            head = stream.read(0x210)
            if len(head) < 0x210 or head[0x202:0x206] != b"HdrS":
                raise KernelError(
                    f"the kernel {path} is no bzImage for x86; give arch/x86/boot/bzImage"
                )
            stream.seek(struct.unpack_from("<H", head, 0x20E)[0] + 0x200)
            text = stream.read(256)
    except OSError as error:
        raise KernelError(f"cannot read the kernel {path}: {error.strerror}") from error
    words = text.split(b"\0", 1)[0].decode("ascii", "replace").split()
    if not words:
        raise KernelError(f"the kernel {path} does not say its release; it cannot be used")
    return words[0]


def _build(recipe: Recipe, progress: Progress) -> Image:
    check_tools()

    def waiting() -> None:
        progress(BuildProgress("waiting for another build", 0.0))

    with cache.building_lock(waiting) as lock:
        _clean_up_dead_builds()
        image = cache.load_image(recipe.digest)
        if image is not None:
            return image
        with _work_directories() as (work, scratch):
            started = time.monotonic()
            _run_mmdebstrap(recipe, work / "image", scratch, lock, progress)
            progress(BuildProgress("making the initramfs", 0.97))
            manifest = _finish(recipe, work / "image", time.monotonic() - started)
            cache.publish(work / "image", manifest)
    image = cache.load_image(recipe.digest)
    if image is None:
        raise ImageBuildFailed("the image that was just built has been removed; try again")
    progress(BuildProgress("done", 1.0))
    return image


def check_tools() -> None:
    """Raise InfrastructureError, with what to install or allow, if no image can be built here."""
    for tool, package in _TOOLS.items():
        if shutil.which(tool) is None:
            raise InfrastructureError(
                f"building the guest image needs {tool}: install the Debian package {package}"
            )
    probe = subprocess.run(
        [*_namespaces(), "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if probe.returncode != 0:
        said = probe.stderr.decode("utf-8", "replace").strip()
        raise InfrastructureError(
            f"cannot make the namespaces for building the guest image ({said}); an ordinary user "
            "needs util-linux 2.38, the Debian package uidmap, ranges in /etc/subuid and "
            "/etc/subgid, and a kernel that allows user namespaces (on Ubuntu: sysctl "
            "kernel.apparmor_restrict_unprivileged_userns=0)"
        )


def _namespaces() -> list[str]:
    users = [] if os.geteuid() == 0 else ["--map-root-user", "--map-auto"]
    return ["unshare", *users, "--mount", "--pid", "--fork", "--kill-child=KILL", "--"]


def _finish(recipe: Recipe, work: Path, seconds: float) -> Manifest:
    initramfs, release = base_initramfs(
        (work / "busybox").read_bytes(), work / "modules.tar", recipe.modules
    )
    (work / cache.INITRAMFS).write_bytes(initramfs)
    packages = dict(
        line.split("\t", 1) for line in (work / "packages").read_text("utf-8").splitlines()
    )
    for name in ("busybox", "modules.tar", "packages"):
        (work / name).unlink()
    return Manifest(
        digest=recipe.digest,
        recipe=recipe,
        kernel_release=release,
        built=int(time.time()),
        build_seconds=round(seconds, 1),
        packages=packages,
        files={
            name: cache.file_record(work / name)
            for name in (cache.ROOTFS, cache.KERNEL, cache.INITRAMFS)
        },
    )


def _mmdebstrap_command(recipe: Recipe, work: Path) -> list[str]:
    def out(name: str) -> str:
        return shlex.quote(str(work / name))

    hooks = (
        'mv "$1"/boot/vmlinuz-* "$1/crashsim-kernel" && rm -rf "$1"/boot/*',
        'chroot "$1" dpkg-query --show >"$1/crashsim-packages"',
        f"download /crashsim-kernel {out(cache.KERNEL)}",
        f"download /crashsim-packages {out('packages')}",
        f"download /bin/busybox {out('busybox')}",
        f"tar-out /lib/modules {out('modules.tar')}",
        # The host's settings have done their work, and a proxy may have a password in them.
        'rm "$1/crashsim-kernel" "$1/crashsim-packages" "$1/etc/apt/apt.conf.d/99mmdebstrap"',
    )
    return [
        # When this process dies, in whatever way, so does everything that it has started here.
        *("setpriv", "--pdeathsig", "KILL", "--"),
        *_namespaces(),
        *("mmdebstrap", "--mode=root", "--variant=apt", "--format=ext2"),
        f"--architectures={recipe.architecture}",
        f"--include={','.join((recipe.kernel_package, *recipe.packages))}",
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--aptopt={setting}" for setting in _host_apt_settings()),
        "--dpkgopt=force-unsafe-io",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in recipe.exclude_paths),
        *(f"--customize-hook={hook}" for hook in hooks),
        recipe.suite,
        str(work / cache.ROOTFS),
        *([recipe.mirror] if recipe.mirror else []),
    ]


def _host_apt_settings() -> list[str]:
    """How this host's apt downloads: its proxies, retries and time checks (apt.conf(5))."""
    dump = subprocess.run(
        ["apt-config", "dump", "--no-empty", *_APT_SETTINGS],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if dump.returncode != 0:
        raise InfrastructureError(f"cannot read apt's settings: {dump.stderr.strip()}")
    return dump.stdout.splitlines()


def _run_mmdebstrap(
    recipe: Recipe, work: Path, scratch: Path, lock: int, progress: Progress
) -> None:
    log: deque[str] = deque(maxlen=_LOG_LINES)
    with subprocess.Popen(
        _mmdebstrap_command(recipe, work),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(scratch), "LC_ALL": "C.UTF-8"},
        start_new_session=True,  # a Ctrl-C is for us alone
        pass_fds=(lock,),  # the lock is held until the last of them is gone
        text=True,
        errors="replace",
    ) as process:
        assert process.stderr is not None
        try:
            for line in process.stderr:
                log.append(line.rstrip())
                for printed, phase, fraction in _PHASES:
                    if printed in line:
                        progress(BuildProgress(phase, fraction))
        except BaseException:
            process.kill()
            process.stderr.read()  # its end says that all who could write there are gone
            raise
    if process.returncode != 0:
        raise ImageBuildFailed(_explain(recipe, process.returncode, list(log)))


def _explain(recipe: Recipe, status: int, log: list[str]) -> str:
    text = "\n".join(log)
    if "No space left on device" in text:
        advice = "free some space, or name another place in TMPDIR and CRASHSIM_CACHE_DIR"
    elif "NO_PUBKEY" in text or "not signed" in text:
        advice = "install the Debian package debian-archive-keyring"
    else:
        advice = "check the network and the recipe"
    return (
        f"mmdebstrap could not build the guest image ({recipe.suite}), exit status {status}: "
        f"{advice}. Its last words:\n{text}"
    )


@contextmanager
def _work_directories() -> Iterator[tuple[Path, Path]]:
    """A directory in the cache for the results, one for mmdebstrap; both are gone afterwards."""
    scratch_parent = _directory_with_space(
        (Path(tempfile.gettempdir()), Path("/var/tmp")), _SCRATCH_BYTES
    )
    _directory_with_space((cache.images_directory(),), _CACHE_BYTES)
    work = Path(tempfile.mkdtemp(prefix=".building-", dir=cache.images_directory()))
    scratch = scratch_parent / f"crashsim-image-{secrets.token_hex(8)}"
    try:
        (work / "image").mkdir()
        (work / "scratch").write_text(str(scratch))
        scratch.mkdir()
        scratch.chmod(0o711)  # mapped users must get through
        yield work, scratch
    finally:
        _remove_build(work)


def _directory_with_space(candidates: tuple[Path, ...], needed_bytes: int) -> Path:
    for directory in candidates:
        if directory.is_dir() and shutil.disk_usage(directory).free >= needed_bytes:
            return directory
    names = " or ".join(str(directory) for directory in candidates)
    raise InfrastructureError(
        f"building the guest image needs {needed_bytes / 1e9:.1f} GB of free space in {names}; "
        "free some, or name another place in TMPDIR and CRASHSIM_CACHE_DIR"
    )


def _clean_up_dead_builds() -> None:
    """Remove what killed builds and removals left; the caller holds the lock, so none is alive."""
    for path in cache.images_directory().iterdir():
        if path.name.startswith(".building-"):
            _remove_build(path)
        elif path.name.startswith(".removing-"):
            shutil.rmtree(path)


def _remove_build(work: Path) -> None:
    record = work / "scratch"
    scratch = Path(record.read_text()) if record.is_file() else None
    if scratch is not None and _SCRATCH_NAME.fullmatch(scratch.name) and scratch.is_dir():
        # Files of mapped users can be removed from inside such a namespace only.
        removal = subprocess.run(
            [*_namespaces(), "rm", "-rf", "--one-file-system", "--", str(scratch)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if removal.returncode != 0:
            return  # the record stays, so the next build tries again
    if work.is_dir():
        shutil.rmtree(work)

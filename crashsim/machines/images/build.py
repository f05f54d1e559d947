"""Building a guest image and putting it into the cache.

While an image is being built the cache holds a `.building-…` directory, and a scratch directory
lies where temporary files go, because the users that a user namespace maps cannot get into a
private home. Both end with the build; what a killed one left is removed by the next.
"""

import re
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from crashsim.errors import InfrastructureError
from crashsim.machines.images import cache
from crashsim.machines.images.cache import Image, Manifest
from crashsim.machines.images.initramfs import base_initramfs
from crashsim.machines.images.kernel import kernel_release
from crashsim.machines.images.mmdebstrap import (
    BuildProgress,
    ImageBuildFailed,
    Progress,
    check_tools,
    namespaces,
    run_mmdebstrap,
)
from crashsim.machines.images.recipe import ImageSpec, Recipe, read_recipe

__all__ = ["BuildProgress", "Progress", "find_or_build_image"]

_SCRATCH_BYTES = 1_500_000_000
_CACHE_BYTES = 800_000_000
_SCRATCH_NAME = re.compile(r"crashsim-image-[0-9a-f]{16}")


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


def _build(recipe: Recipe, progress: Progress) -> Image:
    check_tools()

    def waiting() -> None:
        progress(BuildProgress("waiting for another build", 0.0))

    with cache.building_lock(waiting) as lock:
        _clean_up_dead_builds()
        image = cache.load_image(recipe.digest)
        if image is not None:
            return image
        try:
            with _work_directories() as (work, scratch):
                started = time.monotonic()
                run_mmdebstrap(recipe, work / "image", scratch, lock, progress)
                progress(BuildProgress("making the initramfs", 0.97))
                manifest = _finish(recipe, work / "image", time.monotonic() - started)
                cache.publish(work / "image", manifest)
        except OSError as error:
            raise ImageBuildFailed(
                f"cannot build the guest image: {error}; free some space or name another place in "
                "TMPDIR and CRASHSIM_CACHE_DIR"
            ) from error
    image = cache.load_image(recipe.digest)
    if image is None:
        raise ImageBuildFailed("the image that was just built has been removed; try again")
    progress(BuildProgress("done", 1.0))
    return image


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
            [*namespaces(), "rm", "-rf", "--one-file-system", "--", str(scratch)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if removal.returncode != 0:
            return  # the record stays, so the next build tries again
    if work.is_dir():
        shutil.rmtree(work)

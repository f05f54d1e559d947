"""The cache of guest images: where they lie, how they get in and out, how damage is noticed.

Layout below the cache directory: `images/<digest>/` holds one image; `snapshots/<digest>/` holds
boot snapshots made from it, whose files belong to the machine that writes them; `images/.lock` is
held while anything is built or removed; other names with a leading dot are work in progress.
"""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
import platformdirs
import xxhash

from crashsim.errors import InfrastructureError, UsageError
from crashsim.machines.images.recipe import Recipe

ROOTFS = "rootfs.ext2"
KERNEL = "kernel"
INITRAMFS = "initramfs.cpio"
MANIFEST = "manifest.json"

_HASH_CHUNK_BYTES = 1 << 22
_MANIFEST_LIMIT_BYTES = 1 << 20


class ImageDamaged(InfrastructureError):
    """A cached image is not what was built."""


class NoSuchImage(UsageError):
    """The cache has no image, or more than one, of the digest that was asked for."""


class FileRecord(msgspec.Struct, frozen=True):
    """What a file of an image was when it was built.

    :ivar bytes: its size.
    :ivar xxh3_128: hexadecimal XXH3 digest of its content.
    """

    bytes: int
    xxh3_128: str


class Manifest(msgspec.Struct, frozen=True):
    """`manifest.json` of an image.

    :ivar digest: the recipe's digest, also the directory's name.
    :ivar kernel_release: as `uname -r` prints it.
    :ivar built: when, in seconds since 1970.
    :ivar build_seconds: how long it took.
    :ivar packages: Debian package to version.
    :ivar files: file name to what it was.
    """

    digest: str
    recipe: Recipe
    kernel_release: str
    built: int
    build_seconds: float
    packages: dict[str, str]
    files: dict[str, FileRecord]


@dataclass(frozen=True, slots=True)
class Image:
    """A guest image that is ready to boot.

    :ivar digest: of the recipe. Two builds of one recipe share it; their `rootfs_digest` differs.
    :ivar rootfs: an ext2 image, to be attached read-only as the guest's first virtio-blk disk.
    :ivar kernel: a bzImage: the image's own or the user's.
    :ivar kernel_release: as `uname -r` prints it.
    :ivar base_initramfs: busybox and modules; see `compose_initramfs`.
    :ivar snapshots: the directory for boot snapshots made from this image; it may not exist yet.
        Removing the image removes it.
    """

    digest: str
    rootfs: Path
    kernel: Path
    kernel_release: str
    base_initramfs: Path
    snapshots: Path
    manifest: Manifest

    @property
    def rootfs_digest(self) -> str:
        """Hexadecimal digest of the root file system's bytes, as recorded when it was built."""
        return self.manifest.files[ROOTFS].xxh3_128


def cache_directory() -> Path:
    """crashsim's cache: `$CRASHSIM_CACHE_DIR`, else the user's cache directory of the platform."""
    override = os.environ.get("CRASHSIM_CACHE_DIR")
    return Path(override) if override else Path(platformdirs.user_cache_dir("crashsim"))


def images_directory() -> Path:
    """Where images lie."""
    return cache_directory() / "images"


def snapshots_directory() -> Path:
    """Where boot snapshots lie, one directory for each image digest."""
    return cache_directory() / "snapshots"


def load_image(digest: str) -> Image | None:
    """The cached image of this digest, its files' sizes checked; None if there is none.

    Raises ImageDamaged.
    """
    directory = images_directory() / digest
    try:
        with (directory / MANIFEST).open("rb") as stream:
            text = stream.read(_MANIFEST_LIMIT_BYTES)
        manifest = msgspec.json.decode(text, type=Manifest)
    except (OSError, msgspec.DecodeError) as error:
        if not directory.exists():
            return None
        raise _damaged(digest, f"its {MANIFEST} cannot be read ({error})") from error
    if manifest.digest != digest or set(manifest.files) != {ROOTFS, KERNEL, INITRAMFS}:
        raise _damaged(digest, f"its {MANIFEST} does not belong to it")
    for name, record in manifest.files.items():
        try:
            size = (directory / name).stat().st_size
        except OSError as error:
            raise _damaged(digest, f"its {name} cannot be read ({error.strerror})") from error
        if size != record.bytes:
            raise _damaged(digest, f"its {name} has {size} bytes instead of {record.bytes}")
    return Image(
        digest=digest,
        rootfs=directory / ROOTFS,
        kernel=directory / KERNEL,
        kernel_release=manifest.kernel_release,
        base_initramfs=directory / INITRAMFS,
        snapshots=snapshots_directory() / digest,
        manifest=manifest,
    )


def verify_image(image: Image) -> None:
    """Hash every file of the image. Raises ImageDamaged if one is not as it was built."""
    for name, record in image.manifest.files.items():
        if file_record(images_directory() / image.digest / name) != record:
            raise _damaged(image.digest, f"the content of its {name} has changed")


def image_digests() -> list[str]:
    """Digests of all cached images, damaged ones too."""
    try:
        names = os.listdir(images_directory())
    except FileNotFoundError:
        return []
    return sorted(name for name in names if not name.startswith("."))


def list_images() -> list[Image]:
    """All cached images, ordered by digest. Raises ImageDamaged."""
    images = (load_image(digest) for digest in image_digests())
    return [image for image in images if image is not None]


def find_digest(prefix: str) -> str:
    """The one cached image whose digest begins with `prefix`. Raises NoSuchImage."""
    matches = [digest for digest in image_digests() if prefix and digest.startswith(prefix)]
    if len(matches) != 1:
        many = f"{len(matches)} images' digests begin" if matches else "no image's digest begins"
        raise NoSuchImage(f"{many} with {prefix!r}; `crashsim image list` shows them all")
    return matches[0]


def remove_image(digest: str) -> str:
    """Remove an image, damaged or not, and the boot snapshots made from it; its whole digest.

    `digest` may be shortened. A guest that runs from the image is not disturbed. Raises
    NoSuchImage.
    """
    with building_lock():
        digest = find_digest(digest)
        for directory in (snapshots_directory() / digest, images_directory() / digest):
            if directory.exists():
                # In one step, so that nobody finds half an image while it goes.
                doomed = Path(tempfile.mkdtemp(prefix=".removing-", dir=images_directory()))
                directory.rename(doomed / digest)
                shutil.rmtree(doomed)
    return digest


def snapshot_bytes(image_digest: str) -> int:
    """Size on disk of the boot snapshots made from an image."""
    total = 0
    for directory, _, names in os.walk(snapshots_directory() / image_digest):
        for name in names:
            # A snapshot that is just being made may vanish.
            with suppress(FileNotFoundError):
                total += os.lstat(os.path.join(directory, name)).st_blocks * 512
    return total


@contextmanager
def building_lock(on_wait: Callable[[], None] | None = None) -> Iterator[int]:
    """Hold the cache's lock, waiting for it if need be; gives the lock's file descriptor.

    A child that inherits the descriptor keeps the lock until it too has ended. `on_wait` is called
    once if somebody else has the lock. Raises InfrastructureError if the cache cannot be written.
    """
    try:
        images_directory().mkdir(parents=True, exist_ok=True)
        descriptor = os.open(images_directory() / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InfrastructureError(
            f"cannot write to crashsim's cache {cache_directory()}: {error.strerror}; "
            "name another directory in CRASHSIM_CACHE_DIR"
        ) from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is not None:
                on_wait()
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def file_record(path: Path) -> FileRecord:
    """Size and digest of a file. Raises OSError."""
    digest = xxhash.xxh3_128()
    size = 0
    with path.open("rb") as stream:
        while chunk := stream.read(_HASH_CHUNK_BYTES):
            digest.update(chunk)
            size += len(chunk)
    return FileRecord(size, digest.hexdigest())


def publish(directory: Path, manifest: Manifest) -> None:
    """Make `directory`, on the cache's file system, the image of the manifest's digest.

    After a power cut the image is there whole or not at all. The caller holds the building lock.
    """
    (directory / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)))
    for name in (*manifest.files, MANIFEST, "."):
        _sync(directory / name)
    directory.rename(images_directory() / manifest.digest)
    _sync(images_directory())


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _damaged(digest: str, what: str) -> ImageDamaged:
    return ImageDamaged(
        f"the cached guest image {digest[:12]} is damaged: {what}; remove it by "
        f"`crashsim image rm {digest[:12]}`, then it is built again when it is needed"
    )

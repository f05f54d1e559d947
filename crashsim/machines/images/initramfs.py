"""The guest's initramfs: made with the image (busybox, modules), completed for every snapshot.

Linux unpacks archives that follow one another as if they were one, so what changes often (the
agent, a payload) never makes anybody build an image again.
"""

import os
import stat
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from crashsim.errors import InfrastructureError, UsageError
from crashsim.machines.images import cpio
from crashsim.machines.images.cache import Image
from crashsim.machines.images.modules import (
    ModuleIndex,
    decompress,
    load_order,
    parse_index,
    uncompressed_path,
)
from crashsim.machines.images.recipe import vm_images_directory

PAYLOAD_LIMIT_BYTES = 128 << 20
"""The guest, which has 512 MiB of memory, holds the payload there, and twice while it boots."""

PAYLOAD_LIMIT_FILES = 50_000

_CONSOLE_DEVICE = (5, 1)
_INDEX_NAMES = ("modules.dep", "modules.softdep", "modules.alias", "modules.builtin")
_TAR_MEMBER_LIMIT_BYTES = 64 << 20


class PayloadError(UsageError):
    """A payload directory that cannot be put into a guest."""


def base_initramfs(busybox: bytes, modules_tar: Path, wanted: Sequence[str]) -> tuple[bytes, str]:
    """The archive that belongs to an image, and the release of the kernel its modules are for.

    `modules_tar` is a tar of the guest's /lib/modules; nothing of it is unpacked on the host.
    Raises InfrastructureError if it does not hold one kernel's modules, ModuleMissing if it lacks a
    wanted one.
    """
    try:
        with tarfile.open(modules_tar) as tar:
            members = {os.path.normpath(member.name): member for member in tar}
            indexes = [path for path in members if path.endswith("/modules.dep")]
            if len(indexes) != 1:
                raise InfrastructureError(
                    f"the guest image has modules of {len(indexes)} kernels instead of one"
                )
            directory = os.path.dirname(indexes[0])
            release = os.path.basename(directory)
            texts = [
                _read(tar, members, f"{directory}/{name}").decode("utf-8", "replace")
                for name in _INDEX_NAMES
            ]
            index: ModuleIndex = parse_index(*texts)
            order = load_order(index, wanted)
            modules = [
                (
                    uncompressed_path(path),
                    decompress(path, _read(tar, members, f"{directory}/{path}")),
                )
                for path in order
            ]
    except (tarfile.TarError, OSError) as error:
        raise InfrastructureError(f"cannot read the guest's kernel modules: {error}") from error
    root = f"modules/{release}"
    entries = [
        cpio.file("bin/busybox", busybox, 0o755),
        cpio.directory("dev"),
        cpio.directory("proc"),
        cpio.directory("sys"),
        # The kernel opens it for the first process before devtmpfs is mounted.
        cpio.Entry("dev/console", stat.S_IFCHR | 0o600, device=_CONSOLE_DEVICE),
        cpio.file(f"{root}/order", "".join(f"{path}\n" for path, _ in modules).encode()),
        *(cpio.file(f"{root}/{path}", content) for path, content in modules),
    ]
    return cpio.archive(entries), release


def _read(tar: tarfile.TarFile, members: dict[str, tarfile.TarInfo], path: str) -> bytes:
    member = members.get(path)
    stream = tar.extractfile(member) if member is not None and member.isreg() else None
    if member is None or stream is None or member.size > _TAR_MEMBER_LIMIT_BYTES:
        raise InfrastructureError(f"the guest image has no usable /lib/modules/{path}")
    return stream.read()


def compose_initramfs(image: Image, agent_directory: Path, payload: Path | None = None) -> bytes:
    """The whole initramfs to boot `image` with.

    Equal inputs give equal bytes, whatever their times and owners. Every `.py` file below
    `agent_directory` is at /run/crashsim/agent in the guest, where `python3 -S -E main.py` is
    started; `payload` is at /payload. Raises PayloadError.
    """
    entries = [
        cpio.file(name, (vm_images_directory() / name).read_bytes(), 0o755)
        for name in ("init", "pid1")
    ]
    for path in sorted(agent_directory.rglob("*.py")):
        name = path.relative_to(agent_directory).as_posix()
        entries.append(cpio.file(f"agent/{name}", path.read_bytes()))
    archives = [image.base_initramfs.read_bytes(), cpio.archive(entries)]
    if payload is not None:
        archives.append(cpio.archive(payload_entries(payload)))
    return b"".join(archive + bytes(-len(archive) % 4) for archive in archives)


def payload_entries(payload: Path) -> list[cpio.Entry]:
    """What a payload directory of the host gives in the guest.

    Symbolic links stay links, with the target that they have; none is followed, so nothing from
    outside the directory gets in. Hard links stay hard links, so an installed git counts once.
    Raises PayloadError for anything but files, directories and links, and for more than 128 MiB or
    50,000 files.
    """
    if not payload.is_dir():
        raise PayloadError(f"the payload {payload} is no directory")
    entries = [cpio.directory("payload")]
    total = 0
    names: dict[tuple[int, int], str] = {}
    for path, status in _walk(payload):
        name = "payload/" + path.relative_to(payload).as_posix()
        permissions = stat.S_IMODE(status.st_mode)
        if stat.S_ISDIR(status.st_mode):
            entries.append(cpio.directory(name, permissions))
        elif stat.S_ISLNK(status.st_mode):
            entries.append(cpio.symlink(name, os.fsencode(os.readlink(path))))
        elif not stat.S_ISREG(status.st_mode):
            raise PayloadError(f"{path} is no file, directory or symbolic link; take it out")
        elif (status.st_dev, status.st_ino) in names:
            entries.append(cpio.hard_link(name, names[status.st_dev, status.st_ino]))
        else:
            names[status.st_dev, status.st_ino] = name
            total += status.st_size
            _check_limits(payload, total, len(entries))
            entries.append(cpio.file(name, _read_payload_file(path), permissions))
        _check_limits(payload, total, len(entries))
    return entries


def _walk(directory: Path) -> Iterator[tuple[Path, os.stat_result]]:
    try:
        with os.scandir(directory) as scan:
            children = sorted(scan, key=lambda child: child.name)
        for child in children:
            yield Path(child.path), child.stat(follow_symlinks=False)
            if child.is_dir(follow_symlinks=False):
                yield from _walk(Path(child.path))
    except OSError as error:
        raise PayloadError(f"cannot read the payload {directory}: {error.strerror}") from error


def _read_payload_file(path: Path) -> bytes:
    try:
        # A file that has become a link meanwhile is refused.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
        with os.fdopen(descriptor, "rb") as stream:
            return stream.read(PAYLOAD_LIMIT_BYTES + 1)
    except OSError as error:
        raise PayloadError(f"cannot read {path} for the payload: {error.strerror}") from error


def _check_limits(payload: Path, total_bytes: int, files: int) -> None:
    if total_bytes > PAYLOAD_LIMIT_BYTES or files > PAYLOAD_LIMIT_FILES:
        raise PayloadError(
            f"the payload {payload} is too large: the guest keeps it in memory, so "
            f"{PAYLOAD_LIMIT_BYTES >> 20} MiB and {PAYLOAD_LIMIT_FILES} files are the limits"
        )

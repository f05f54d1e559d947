"""The programs under test as one tar archive, packed the same way every time and unpacked warily.

A payload only ever runs in a guest. On the host it is a directory of bytes, and unpacking it must
not write anywhere else: `tarfile`'s own "data" filter, where Python has it (3.11.4, PEP 706), is
the second line of defence, after checks that do not depend on resolving paths through what was
unpacked before (where that filter has had holes: CVE-2025-4517 and its siblings).
"""

import os
import tarfile
from pathlib import Path, PurePosixPath
from typing import IO

from crashsim.errors import UsageError

_MEMBERS_LIMIT = 200_000
_TOTAL_LIMIT_BYTES = 4 << 30


class PayloadRejected(UsageError):
    """A payload holds something that must not travel: a device, or a link out of itself."""


def pack_payload(directory: Path, target: IO[bytes]) -> None:
    """Write `directory`'s content as a tar archive that depends on names, modes and bytes only.

    :raises PayloadRejected: the directory is none, or holds a link out of itself or a special file.
    """
    if not directory.is_dir():
        raise PayloadRejected(f"the payload {directory} is not a directory")
    with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(directory.rglob("*")):
            member = tarfile.TarInfo(path.relative_to(directory).as_posix())
            status = path.lstat()
            member.mode = status.st_mode & 0o777
            if path.is_symlink():
                member.type, member.linkname = tarfile.SYMTYPE, os.readlink(path)
            elif path.is_dir():
                member.type = tarfile.DIRTYPE
            elif path.is_file():
                member.size = status.st_size
            else:
                raise PayloadRejected(f"the payload's {member.name!r} is a special file")
            _check(member)
            if not member.isreg():
                archive.addfile(member)
                continue
            with path.open("rb") as stream:
                archive.addfile(member, stream)


def unpack_payload(archive_path: Path, directory: Path) -> None:
    """Unpack into `directory`, which is made.

    :raises PayloadRejected: the archive is damaged or tries to reach outside of itself.
    """
    directory.mkdir()
    links: set[PurePosixPath] = set()
    total_bytes = count = 0
    try:
        with tarfile.open(archive_path, "r:") as archive:
            # As an attribute, since Debian 12's Python (3.11.2) has neither filter nor parameter.
            archive.extraction_filter = getattr(tarfile, "data_filter", None)
            for member in archive:
                _check(member)
                name = PurePosixPath(member.name)
                if not links.isdisjoint([name, *name.parents]):
                    raise PayloadRejected(f"the payload's {member.name!r} lies behind a link")
                if member.issym():
                    links.add(name)
                count += 1
                total_bytes += member.size
                if count > _MEMBERS_LIMIT or total_bytes > _TOTAL_LIMIT_BYTES:
                    raise PayloadRejected("the payload is too large")
                _disarm(member)
                archive.extract(member, directory)
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise PayloadRejected(f"the payload is not a whole tar archive: {error}") from error
    except (FileExistsError, IsADirectoryError, NotADirectoryError) as error:
        raise PayloadRejected(f"the payload has two members in one place: {error}") from error


def _check(member: tarfile.TarInfo) -> None:
    if not (member.isreg() or member.isdir() or member.issym()):
        raise PayloadRejected(f"the payload's {member.name!r} is neither file, directory nor link")
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or not name.parts:
        raise PayloadRejected(f"the payload's name {member.name!r} leaves the payload")
    if member.issym() and not _stays_inside(name, PurePosixPath(member.linkname)):
        raise PayloadRejected(
            f"the payload's link {member.name!r} points out of the payload, to "
            f"{member.linkname!r}; make it relative, or copy the file"
        )


def _disarm(member: tarfile.TarInfo) -> None:
    """What is unpacked belongs to the caller, who may write it; nobody else may, nor become him."""
    member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    member.mode = member.mode & 0o755 | (0o700 if member.isdir() else 0o600)


def _stays_inside(link: PurePosixPath, target: PurePosixPath) -> bool:
    """Whether a link's target stays inside, by names alone.

    A target that goes up again after having gone down could pass through another link, so only
    leading `..` are allowed.
    """
    if target.is_absolute():
        return False
    ups = 0
    for part in target.parts:
        if part != "..":
            break
        ups += 1
    return ".." not in target.parts[ups:] and ups <= len(link.parts) - 1

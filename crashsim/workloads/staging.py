"""Bring files into a guest, outside of the filesystem under test."""

import io
import tarfile
from collections.abc import Mapping
from pathlib import Path

from crashsim.errors import InfrastructureError, UsageError
from crashsim.machines.protocol import Guest

PAYLOAD_DIRECTORY = "/payload"
PAYLOAD_BYTES_MAX = 256 << 20
"""A payload lives in the guest's memory, beside what the program under test needs."""

_GUEST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PAYLOAD_ENVIRONMENT: Mapping[str, str] = {"PATH": f"{PAYLOAD_DIRECTORY}/bin:{_GUEST_PATH}"}
"""Puts the payload's programs first."""


class BadPayload(UsageError):
    """A payload directory is missing or too large."""


class StagingFailed(InfrastructureError):
    """Files could not be put into the guest: its memory is full, most likely."""


def put_files(guest: Guest, directory: str, files: Mapping[str, bytes]) -> None:
    """Write `files` (relative path -> content) below `directory`, which is made."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path, content in files.items():
            member = tarfile.TarInfo(path)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    _unpack(guest, directory, buffer.getvalue())


def put_payload(guest: Guest, payload: Path) -> None:
    """Copy the directory `payload` of the host to /payload in the guest. Raises BadPayload."""
    if not payload.is_dir():
        raise BadPayload(f"--payload {payload}: there is no such directory")
    size = sum(path.lstat().st_size for path in payload.rglob("*") if path.is_file())
    if size > PAYLOAD_BYTES_MAX:
        raise BadPayload(
            f"--payload {payload} holds {size >> 20} MiB; at most {PAYLOAD_BYTES_MAX >> 20} MiB "
            "fit into the guest's memory"
        )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.add(payload, arcname=".", filter=_owned_by_root)
    _unpack(guest, PAYLOAD_DIRECTORY, buffer.getvalue())


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if not (member.isfile() or member.isdir() or member.issym() or member.islnk()):
        return None  # sockets and devices mean nothing elsewhere
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _unpack(guest: Guest, directory: str, archive: bytes) -> None:
    staged = f"{directory}.tar"
    guest.write_file(staged, archive)
    script = 'mkdir -p "$1"; tar -xf "$2" -C "$1"; rm "$2"'
    result = guest.run(["sh", "-ec", script, "sh", directory, staged])
    if result.returncode != 0:
        told = result.stderr.decode("utf-8", "replace").strip()
        raise StagingFailed(f"{len(archive)} bytes of files do not unpack in the guest: {told}")

"""A recording: a log with its base image and how it was made, in one directory."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from crashsim.disk.log import Log
from crashsim.disk.log_writer import (
    DISK_FULL_ERRNOS,
    LogWriter,
    RecordingDiskFull,
    RecordingExists,
    RecordingFailed,
)
from crashsim.errors import UsageError

MANIFEST_NAME = "recording.json"
BASE_NAME = "base.img"
SCHEMA = "crashsim.recording/1"
_MAXIMUM_MANIFEST_BYTES = 64 << 20


class RecordingUnreadable(UsageError):
    """A directory holds no recording, or one that this program cannot read."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """How a recording was made; `recording.json`.

    :ivar disk_size_bytes: the size of the recorded disk; of several, that of all together.
    :ivar disks: how many there are (`Log.disks`).
    :ivar filesystem: what was made and mounted on it (`ext4`); empty if nothing was.
    :ivar mkfs_argv: the program that made the filesystem, without the device.
    :ivar mount_options: as mount(8) takes them, joined by commas.
    :ivar target: what ran: `git`, `impl`, `command`, …
    :ivar steps: the workload's script, if it is one: free form.
    :ivar disturbances: what happened meanwhile: free form.
    :ivar machine: kind, accel and kernel of the machine: free form.
    :ivar details: whatever else its maker needs to explore it again.
    """

    schema: str = SCHEMA
    disk_size_bytes: int
    filesystem: str = ""
    mkfs_argv: tuple[str, ...] = ()
    mount_options: str = ""
    target: str = ""
    steps: tuple[Any, ...] = ()
    seed: int = 0
    disturbances: tuple[Any, ...] = ()
    machine: dict[str, Any] = {}
    details: dict[str, Any] = {}
    disks: int = 1


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording's directory and what its manifest says."""

    directory: Path
    manifest: Manifest

    @classmethod
    def create(cls, directory: Path, manifest: Manifest) -> "Recording":
        """Start one in `directory`, which is made if need be; then use `writer`.

        Raises RecordingExists if there is one already, RecordingDiskFull and RecordingFailed.
        """
        recording = cls(directory, manifest)
        path = directory / MANIFEST_NAME
        try:
            directory.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as file:
                file.write(_encode(manifest))
        except FileExistsError as error:
            raise RecordingExists(f"{path} exists already: choose another directory") from error
        except OSError as error:
            raise _failure(path, error) from error
        return recording

    @classmethod
    def open(cls, directory: Path) -> "Recording":
        """Read a manifest. Raises RecordingUnreadable; the log is read by `log` only."""
        path = directory / MANIFEST_NAME
        try:
            if path.stat().st_size > _MAXIMUM_MANIFEST_BYTES:
                raise RecordingUnreadable(f"{path} is too large for a manifest")
            manifest = msgspec.json.decode(path.read_bytes(), type=Manifest)
        except OSError as error:
            raise RecordingUnreadable(f"{path}: cannot be read: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise RecordingUnreadable(f"{path}: no manifest: {error}") from error
        if manifest.schema != SCHEMA:
            raise RecordingUnreadable(
                f"{path}: schema {manifest.schema!r}; this program reads {SCHEMA!r}"
            )
        return cls(directory, manifest)

    def with_manifest(self, manifest: Manifest) -> "Recording":
        """The same recording after its manifest was replaced on disk, as one step."""
        path = self.directory / MANIFEST_NAME
        temporary = path.with_suffix(".new")
        try:
            temporary.write_bytes(_encode(manifest))
            os.replace(temporary, path)
        except OSError as error:
            raise _failure(path, error) from error
        return Recording(self.directory, manifest)

    @property
    def base(self) -> Path | None:
        """The image that the disk started with; None if it started with zeroes."""
        path = self.directory / BASE_NAME
        return path if path.is_file() else None

    def writer(self) -> LogWriter:
        """Start the log. Raises what LogWriter raises."""
        return LogWriter(self.directory, self.manifest.disk_size_bytes, self.manifest.disks)

    def log(self) -> Log:
        """Read the log. Raises LogDamaged, and RecordingUnreadable if it is for another disk."""
        log = Log.open(self.directory)
        if log.size_bytes != self.manifest.disk_size_bytes:
            log.close()
            raise RecordingUnreadable(
                f"{self.directory}: the log is of a disk of {log.size_bytes} bytes, "
                f"the manifest of one of {self.manifest.disk_size_bytes}"
            )
        return log


def _encode(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest), indent=2) + b"\n"


def _failure(path: Path, error: OSError) -> RecordingDiskFull | RecordingFailed:
    kind = RecordingDiskFull if error.errno in DISK_FULL_ERRNOS else RecordingFailed
    return kind(f"cannot write {path}: {error.strerror}: free some space or record elsewhere")

"""Boot snapshots: a guest that has booted and warmed up, kept in the cache.

A snapshot is a directory of two files. `memory` is the guest's memory, as the file that the booting
guest had mapped; later guests map it privately, so they start without reading it, share what they
do not change, and never write to it. `devices` is the rest, as QEMU migrates it.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xxhash

from crashsim.errors import InfrastructureError

FORMAT = "1"
KEPT_MAX = 6
"""Snapshots of one image, at 150 MB or so each."""

PREFIX = ".making-"
_CHUNK_BYTES = 4 << 20
_PAGE_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A saved guest."""

    directory: Path

    @property
    def memory(self) -> Path:
        """The guest's memory."""
        return self.directory / "memory"

    @property
    def devices(self) -> Path:
        """The state of its virtual hardware."""
        return self.directory / "devices"


def snapshot_key(parts: Sequence[str | bytes]) -> str:
    """A name that is equal only where everything is equal that a snapshot depends on."""
    digest = xxhash.xxh3_128()
    for part in (FORMAT, *parts):
        data = part.encode("utf-8", "surrogateescape") if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little") + data)
    return digest.hexdigest()


def find_snapshot(parent: Path, key: str) -> Snapshot | None:
    """The snapshot of this key, if it was made."""
    snapshot = Snapshot(parent / key)
    try:
        os.utime(snapshot.directory)  # the time of its last use
    except FileNotFoundError:
        return None
    return snapshot


@contextlib.contextmanager
def making(parent: Path, key: str) -> Iterator[Snapshot | None]:
    """Make a snapshot: fill the one that is given, and it is published when the block ends well.

    Gives None when another process has made it while this one waited for its turn. What a process
    left behind that was killed in the middle is removed. Raises InfrastructureError when the cache
    cannot be written.
    """
    try:
        parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(parent / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise InfrastructureError(
            f"cannot keep a boot snapshot in {parent}: {error.strerror}; name another directory in "
            "CRASHSIM_CACHE_DIR"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if find_snapshot(parent, key) is not None:
            yield None
            return
        for left_behind in parent.glob(f"{PREFIX}*"):
            shutil.rmtree(left_behind)
        directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        try:
            snapshot = Snapshot(directory)
            yield snapshot
            _dig_holes(snapshot.memory)
            _publish(snapshot, parent / key)
            _remove_unused(parent)
        finally:
            shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(lock)


def discard(parent: Path, key: str) -> None:
    """Remove a snapshot that is of no use, if it is there. Guests that run from it go on."""
    shutil.rmtree(parent / key, ignore_errors=True)


def _publish(snapshot: Snapshot, destination: Path) -> None:
    """After a power cut the snapshot is there whole, or not at all."""
    for path in (snapshot.memory, snapshot.devices, snapshot.directory):
        _sync(path)
    snapshot.directory.rename(destination)
    _sync(destination.parent)


def _remove_unused(parent: Path) -> None:
    """Keep the snapshots that were used last: each change of an agent or a payload makes another.

    Guests that run from a removed one are not disturbed: they have it open.
    """
    snapshots = [path for path in parent.iterdir() if path.is_dir()]
    snapshots.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    for path in snapshots[KEPT_MAX:]:
        shutil.rmtree(path)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _dig_holes(memory: Path) -> None:
    """Rewrite a memory file without the pages that are all zero: the guest freed most of it."""
    sparse = memory.with_name("memory.sparse")
    with memory.open("rb") as source, sparse.open("wb") as target:
        while chunk := source.read(_CHUNK_BYTES):
            pages = np.frombuffer(chunk, np.uint8).reshape(-1, _PAGE_BYTES)
            used = pages.any(axis=1)
            for index in np.flatnonzero(used):
                target.seek(source.tell() - len(chunk) + int(index) * _PAGE_BYTES)
                target.write(pages[index].data)
        target.truncate(source.tell())
    sparse.rename(memory)

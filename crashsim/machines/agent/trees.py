"""Reading a whole directory tree: the operation whose speed decides how many states get checked.

Under emulation every Python instruction and every allocation is dear, so this module is plain loops
over local names, with one open, one read and one close for each small file.
"""

import errno
import os
import stat
from collections.abc import Callable
from hashlib import blake2b

DIGEST_BYTES = 16
SMALL_BYTES = 1 << 18
"""Up to this size a file is read in one go."""

CHUNK_BYTES = 1 << 20
BATCH_FILES = 256
OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC

Row = tuple[bytes, str, int, int, str]
"""Relative path, kind (f, d, l, o), permission bits, size, digest."""

Emit = Callable[[str, bytes, bool], None]
"""Called with (digest, a piece of the content, whether it is the last)."""


class ContentChanged(Exception):
    """A file to be collected changed while it was read: something else is using the tree."""


def below(path: bytes, prefixes: tuple[bytes, ...]) -> bool:
    """Whether `path` is one of `prefixes` or inside of one; the empty prefix is the root."""
    return any(
        not prefix or path == prefix or path.startswith(prefix + b"/") for prefix in prefixes
    )


def read_tree(
    root: bytes,
    exclude: tuple[bytes, ...],
    collect: tuple[bytes, ...],
    sent: set[str],
    emit: Emit,
) -> list[Row]:
    """Hash everything below `root`, in no particular order.

    Contents below `collect` go to `emit` unless their digest is in `sent`, to which they are added.
    What cannot be read has the digest `error:<ERRNO>`; symbolic links are not followed. Raises
    OSError when `root` cannot be listed, ContentChanged when the tree is in use.
    """
    rows: list[Row] = []
    if b"" in exclude:
        return rows
    # What is inside of an excluded directory is never met.
    excluded = frozenset(exclude)
    directories = _list_directory(root, b"", rows, excluded)
    while directories:
        index = directories.pop()
        path, kind, mode, size, _ = rows[index]
        try:
            directories += _list_directory(root + b"/" + path, path + b"/", rows, excluded)
        except OSError as error:
            rows[index] = (path, kind, mode, size, _failure(error))
    files = [index for index, row in enumerate(rows) if row[1] == "f"]
    for start in range(0, len(files), BATCH_FILES):
        _read_files(root + b"/", rows, files[start : start + BATCH_FILES], collect, sent, emit)
    return rows


def _list_directory(
    directory: bytes, prefix: bytes, rows: list[Row], excluded: frozenset[bytes]
) -> list[int]:
    """Add a row for each entry, files without their digest; the indexes of the directories."""
    directories = []
    with os.scandir(directory) as entries:
        for entry in entries:
            path = prefix + entry.name
            if path in excluded:
                continue
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError as error:
                rows.append((path, "o", 0, 0, _failure(error)))
                continue
            mode = status.st_mode & 0o7777
            kind = stat.S_IFMT(status.st_mode)
            if kind == stat.S_IFREG:
                rows.append((path, "f", mode, status.st_size, ""))
            elif kind == stat.S_IFDIR:
                directories.append(len(rows))
                rows.append((path, "d", mode, 0, ""))
            elif kind == stat.S_IFLNK:
                rows.append((path, "l", mode, 0, _read_link(entry.path)))
            else:
                rows.append((path, "o", mode, 0, ""))
    return directories


def _read_files(
    prefix: bytes,
    rows: list[Row],
    indexes: list[int],
    collect: tuple[bytes, ...],
    sent: set[str],
    emit: Emit,
) -> None:
    """Put the digests into the rows of some files.

    The kernel is told of all of them before the first is read, so that it fetches them together: to
    wait for the disk file by file would be half of a tree's time.
    """
    everything = b"" in collect
    opened: list[tuple[int, int]] = []
    try:
        for index in indexes:
            path, kind, mode, size, _ = rows[index]
            try:
                descriptor = os.open(prefix + path, OPEN_FLAGS)
                opened.append((index, descriptor))
                if size:
                    os.posix_fadvise(descriptor, 0, size, os.POSIX_FADV_WILLNEED)
            except OSError as error:
                rows[index] = (path, kind, mode, size, _failure(error))
        for index, descriptor in opened:
            path, kind, mode, size, failure = rows[index]
            if not failure:
                wanted = everything or below(path, collect)
                digest = _read_file(descriptor, path, size, wanted, sent, emit)
                rows[index] = (path, kind, mode, size, digest)
    finally:
        for _, descriptor in opened:
            os.close(descriptor)


def _failure(error: OSError) -> str:
    return f"error:{errno.errorcode.get(error.errno or 0, error.errno)}"


def _read_link(path: bytes) -> str:
    try:
        return blake2b(os.readlink(path), digest_size=DIGEST_BYTES).hexdigest()
    except OSError as error:
        return _failure(error)


def _read_file(
    descriptor: int, path: bytes, size: int, wanted: bool, sent: set[str], emit: Emit
) -> str:
    try:
        if size >= SMALL_BYTES:
            return _read_large_file(descriptor, path, size, wanted, sent, emit)
        data = os.read(descriptor, size + 1)
    except OSError as error:
        return _failure(error)
    if len(data) != size:
        raise ContentChanged(f"{os.fsdecode(path)} changed while it was read")
    digest = blake2b(data, digest_size=DIGEST_BYTES).hexdigest()
    if wanted and digest not in sent:
        emit(digest, data, True)
        sent.add(digest)
    return digest


def _read_large_file(
    descriptor: int, path: bytes, size: int, wanted: bool, sent: set[str], emit: Emit
) -> str:
    """Hash a file piece by piece; read it a second time if its content is to be sent."""
    buffer = memoryview(bytearray(CHUNK_BYTES))
    hasher = blake2b(digest_size=DIGEST_BYTES)
    total = 0
    while count := os.readv(descriptor, [buffer]):
        hasher.update(buffer[:count])
        total += count
    if total != size:
        raise ContentChanged(f"{os.fsdecode(path)} changed while it was read")
    digest = hasher.hexdigest()
    if not wanted or digest in sent:
        return digest
    os.lseek(descriptor, 0, os.SEEK_SET)
    remaining = size
    while remaining:
        count = os.readv(descriptor, [buffer[: min(CHUNK_BYTES, remaining)]])
        if not count:
            raise ContentChanged(f"{os.fsdecode(path)} changed while it was read")
        remaining -= count
        emit(digest, bytes(buffer[:count]), not remaining)
    sent.add(digest)
    return digest

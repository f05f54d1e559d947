"""An fsync(2) that fails, and what follows: runs in the guest, as a script of its own.

    failed_sync.py prepare DIRECTORY        files with old content, durable
    failed_sync.py probe DIRECTORY SHAPE    write new content, sync it again and again; prints JSON

The shapes: `overwrite` writes in place, `append` makes the file longer, `create` makes a new file;
`writeout` writes in place, too, and its first sync is a sync_file_range(2).
"""

import ctypes
import errno
import json
import os
import sys
from collections.abc import Callable

BLOCK_BYTES = 8192
"""More than any of the filesystems keeps inside of an inode."""

SHAPES = ("overwrite", "append", "create", "writeout")
WAIT_WRITE_WAIT = 1 | 2 | 4
"""Flags of sync_file_range(2): write all pages out, and wait."""

OLD, NEW, MORE = (letter * BLOCK_BYTES for letter in (b"o", b"n", b"m"))


def prepare(directory: str) -> None:
    """Make the files."""
    for name in ("overwrite", "append", "writeout"):
        descriptor = os.open(f"{directory}/{name}", os.O_WRONLY | os.O_CREAT)
        os.write(descriptor, OLD)
        os.fsync(descriptor)
        os.close(descriptor)
    os.sync()


def probe(directory: str, shape: str) -> dict[str, str]:
    """What each call says after the disk has begun to fail: `0`, or the errno's name."""
    path = f"{directory}/{shape}"
    flags = os.O_RDWR | (os.O_CREAT if shape == "create" else 0)
    told: dict[str, str] = {}
    descriptor = os.open(path, flags | (os.O_APPEND if shape == "append" else 0))
    told["write"] = _said(lambda: os.write(descriptor, NEW))
    first = _write_out if shape == "writeout" else os.fsync
    told["fsync"] = _said(lambda: first(descriptor))
    told["fsync again"] = _said(lambda: os.fsync(descriptor))
    told["reopened fsync"] = _said(lambda: _fsync(path))
    told["read"] = _content(path)
    os.close(descriptor)
    _forget()
    told["read without cache"] = _content(path)
    told["rewrite"] = _said(lambda: _rewrite(path))
    return told


def _said(call: Callable[[], object]) -> str:
    try:
        call()
    except OSError as error:
        return errno.errorcode[error.errno or errno.EIO]
    return "0"


def _write_out(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    start, length = ctypes.c_int64(0), ctypes.c_int64(0)
    if libc.sync_file_range(descriptor, start, length, ctypes.c_uint(WAIT_WRITE_WAIT)) != 0:
        raise OSError(ctypes.get_errno(), "sync_file_range")


def _fsync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _rewrite(path: str) -> None:
    """What a careful program does next: a new file in place of the old, synced."""
    descriptor = os.open(f"{path}.new", os.O_WRONLY | os.O_CREAT)
    try:
        os.write(descriptor, MORE)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _forget() -> None:
    """Drop clean pages, inodes and directory entries (Documentation/admin-guide/sysctl/vm.rst)."""
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")


def _content(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return word(file.read())
    except OSError as error:
        return errno.errorcode[error.errno or errno.EIO]


def word(content: bytes) -> str:
    """What a file of the probe holds, in blocks: `new`, `old+new`, `empty`."""
    names = {OLD: "old", NEW: "new", MORE: "more", bytes(BLOCK_BYTES): "zeros"}
    blocks = [content[at : at + BLOCK_BYTES] for at in range(0, len(content), BLOCK_BYTES)]
    return "+".join(names.get(block, "torn") for block in blocks) or "empty"


def main() -> None:
    """See the module."""
    if sys.argv[1] == "prepare":
        prepare(sys.argv[2])
    else:
        print(json.dumps(probe(sys.argv[2], sys.argv[3])))


if __name__ == "__main__":
    main()

"""A writer of cpio archives in the "newc" format, the one that Linux unpacks as an initramfs.

Format: Documentation/driver-api/early-userspace/buffer-format.rst in the Linux source. Several
archives may follow one another; each must start at a multiple of four bytes.
"""

import stat
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

_MAGIC = b"070701"
_TRAILER = "TRAILER!!!"
_FIELD_LIMIT = 1 << 32


@dataclass(frozen=True, slots=True)
class Entry:
    """One file, directory, symbolic link or device node, owned by root.

    :ivar path: relative to the archive's root, no leading slash: `bin/busybox`.
    :ivar mode: type and permission bits as st_mode has them.
    :ivar content: a file's bytes or a symbolic link's target; empty for everything else.
    :ivar device: major and minor number of a device node.
    :ivar link_to: path of the regular file that this is another name (a hard link) of. Everything
        but the path is then the other's.
    """

    path: str
    mode: int
    content: bytes = b""
    device: tuple[int, int] = (0, 0)
    link_to: str = ""


def file(path: str, content: bytes, permissions: int = 0o644) -> Entry:
    """A regular file."""
    return Entry(path, stat.S_IFREG | permissions, content)


def directory(path: str, permissions: int = 0o755) -> Entry:
    """A directory."""
    return Entry(path, stat.S_IFDIR | permissions)


def hard_link(path: str, link_to: str) -> Entry:
    """Another name of the regular file at `link_to`, which takes no more room."""
    return Entry(path, stat.S_IFREG, link_to=link_to)


def symlink(path: str, target: bytes) -> Entry:
    """A symbolic link; `target` is kept as it is."""
    return Entry(path, stat.S_IFLNK | 0o777, target)


def archive(entries: Iterable[Entry]) -> bytes:
    """One archive of `entries`: equal entries in any order give equal bytes.

    Directories that an entry lies in and that are not among `entries` are added, mode 0755.
    All times are zero. Raises ValueError on a path that is absolute, climbs, or comes twice, and on
    a hard link to what is no regular file of this archive.
    """
    by_path: dict[str, Entry] = {}
    for entry in entries:
        _check_path(entry.path)
        if entry.path in by_path:
            raise ValueError(f"two entries for {entry.path!r} in one cpio archive")
        by_path[entry.path] = entry
    for path in list(by_path):
        parts = path.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            parent = "/".join(parts[:depth])
            by_path.setdefault(parent, directory(parent))
    links = Counter(entry.link_to or path for path, entry in by_path.items())
    inodes: dict[str, int] = {}
    chunks: list[bytes] = []
    # A directory's path is a prefix of the paths in it, so it comes before them.
    for path in sorted(by_path):
        target = by_path[path].link_to or path
        if target != path and not _is_plain_file(by_path.get(target)):
            raise ValueError(f"{path!r} links to {target!r}, no regular file of the cpio archive")
        entry = replace(by_path[target], path=path)
        if target in inodes:
            # Linux finds the inode that it has made for the first name, and links to it.
            entry = replace(entry, content=b"")
        inode = inodes.setdefault(target, len(inodes) + 1)
        chunks += _member(entry, inode, 2 if stat.S_ISDIR(entry.mode) else links[target])
    chunks += _member(Entry(_TRAILER, 0), 0, 1)
    return b"".join(chunks)


def _is_plain_file(entry: Entry | None) -> bool:
    return entry is not None and stat.S_ISREG(entry.mode) and not entry.link_to


def _check_path(path: str) -> None:
    parts = path.split("/")
    if path == _TRAILER or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise ValueError(f"{path!r} cannot be a member of a cpio archive")


def _member(entry: Entry, inode: int, links: int) -> list[bytes]:
    name = entry.path.encode("utf-8", "surrogateescape") + b"\0"
    if len(entry.content) >= _FIELD_LIMIT:
        raise ValueError(f"{entry.path!r} is too large for a cpio archive: 4 GiB is the limit")
    fields = (
        inode,
        entry.mode,
        0,  # uid
        0,  # gid
        links,
        0,  # mtime
        len(entry.content),
        0,  # major and minor number of the device that holds the file
        0,
        *entry.device,
        len(name),
        0,  # checksum: always 0 in this variant of the format
    )
    header = _MAGIC + b"".join(b"%08X" % field for field in fields)
    return [
        header,
        name,
        _padding(len(header) + len(name)),
        entry.content,
        _padding(len(entry.content)),
    ]


def _padding(length: int) -> bytes:
    return bytes(-length % 4)

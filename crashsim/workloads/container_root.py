"""The root file system of a container image: its layers on top of each other, as one archive.

Nothing is unpacked: what an entry is called decides about an index alone. Source of the rules:
layer.md of the OCI image specification.
"""

import io
import posixpath
import tarfile
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from crashsim.errors import UsageError

WHITEOUT = ".wh."
OPAQUE = ".wh..wh..opq"
ENTRIES_MAX = 200_000
CONTENT_BYTES_MAX = 96 << 20
"""Of all files: while they are unpacked they are twice in a guest's memory."""

TABLE_BYTES_MAX = 4 << 20


class BadImage(UsageError):
    """A file or directory that is no container image, or one that does not fit into a guest."""


class ContainerRoot:
    """The joined root: path without a leading slash -> its entry, and the archive that has it."""

    def __init__(self, stack: ExitStack) -> None:
        """An empty root; `stack` closes the archives that it reads."""
        self._stack = stack
        self._entries: dict[str, tuple[tarfile.TarInfo, tarfile.TarFile | Path | None]] = {}
        self._bytes = 0

    def add_layer(self, layer: IO[bytes]) -> None:
        """Put a layer on top: its whiteouts remove what lies below it (layer.md)."""
        opened = tarfile.open(fileobj=layer, mode="r:")  # noqa: SIM115 - closed with the stack
        archive = self._stack.enter_context(opened)
        below = frozenset(self._entries)
        own: set[str] = set()
        for member in archive:
            path = inside(member.name)
            directory, name = posixpath.split(path)
            if name == OPAQUE:
                self._remove(below - own, directory, children_only=True)
            elif name.startswith(WHITEOUT):
                gone = posixpath.join(directory, name.removeprefix(WHITEOUT))
                self._remove(below - own, gone, children_only=False)
            elif path:
                if not member.isdir():
                    self._remove(below - own, path, children_only=True)
                self._add(path, member, archive)
                own.add(path)

    def add_directory(self, directory: Path) -> None:
        """Take a directory of the host as root file system; everything in it is root's."""
        for path in sorted(directory.rglob("*")):
            name = path.relative_to(directory).as_posix()
            member = tarfile.TarInfo(name)
            status = path.lstat()
            member.mode = status.st_mode & 0o7777
            member.mtime = int(status.st_mtime)
            if path.is_symlink():
                member.type, member.linkname = tarfile.SYMTYPE, path.readlink().as_posix()
            elif path.is_dir():
                member.type = tarfile.DIRTYPE
            elif path.is_file():
                member.size = status.st_size
            else:
                continue  # a device or socket of the host's means nothing elsewhere
            self._add(name, member, path)

    def add_mount_point(self, path: str) -> None:
        """Make sure of a directory. Raises BadImage where something else is there."""
        if not path.startswith("/"):
            raise BadImage(f"a path in a container begins with /, not {path!r}")
        name = inside(path)
        for parent in parents(name):
            entry = self._entries.get(parent)
            if entry is None:
                member = tarfile.TarInfo(parent)
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                self._entries[parent] = (member, None)
            elif not entry[0].isdir():
                raise BadImage(f"/{parent} is no directory in the image: nothing is mounted there")

    def read_text(self, path: str) -> str:
        """A small file's content; empty where there is none."""
        member, archive = self._entries.get(path, (None, None))
        if member is None or not member.isreg() or member.size > TABLE_BYTES_MAX:
            return ""
        with self._content(member, archive) as content:
            return content.read().decode("utf-8", "replace")

    def write(self, target: IO[bytes]) -> None:
        """All of it, parents first; hard links last, when what they link to is there."""
        with tarfile.open(fileobj=target, mode="w", format=tarfile.PAX_FORMAT) as joined:
            for hard_links in (False, True):
                for path in sorted(self._entries):
                    member, source = self._entries[path]
                    if member.islnk() is not hard_links:
                        continue
                    self._check_parents(path)
                    member.name = path
                    member.uname = member.gname = ""
                    if member.islnk():
                        member.linkname = inside(member.linkname)
                        if member.linkname not in self._entries:
                            raise BadImage(f"/{path} is a hard link to what is not in the image")
                    with self._content(member, source) as content:
                        joined.addfile(member, content if member.isreg() else None)

    def _check_parents(self, path: str) -> None:
        """A path that leads through a link would be unpacked elsewhere."""
        for parent in parents(path)[:-1]:
            entry = self._entries.get(parent)
            if entry is not None and not entry[0].isdir():
                raise BadImage(f"/{path} is in the image, below /{parent}, which is no directory")

    def _add(self, path: str, member: tarfile.TarInfo, source: tarfile.TarFile | Path) -> None:
        if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            return  # devices and pipes: the guest gives it those that it needs
        self._entries[path] = (member, source)
        self._bytes += member.size if member.isreg() else 0
        if self._bytes > CONTENT_BYTES_MAX or len(self._entries) > ENTRIES_MAX:
            raise BadImage(
                f"the image has more than {CONTENT_BYTES_MAX >> 20} MiB in files or {ENTRIES_MAX} "
                "entries: a guest keeps it in memory, so make it smaller"
            )

    def _remove(self, paths: frozenset[str], root: str, *, children_only: bool) -> None:
        inside = f"{root}/" if root else ""
        for path in paths:
            if path.startswith(inside) or (path == root and not children_only):
                self._entries.pop(path, None)

    @staticmethod
    def _content(member: tarfile.TarInfo, source: tarfile.TarFile | Path | None) -> IO[bytes]:
        """What is in a file; nothing for any other entry."""
        if source is None or not member.isreg():
            return io.BytesIO()
        if isinstance(source, Path):
            return source.open("rb")
        return source.extractfile(member) or io.BytesIO()


def inside(name: str) -> str:
    """A path in the image without its leading slash; empty for the root. Raises BadImage."""
    path = posixpath.normpath(name.lstrip("/") or ".")
    if path == ".." or path.startswith("../") or "\0" in path:
        raise BadImage(f"the image has a path outside of itself: {name[:200]!r}")
    return "" if path == "." else path


def parents(name: str) -> list[str]:
    """Every directory on the way to a path, and the path itself."""
    parts = name.split("/") if name else []
    return ["/".join(parts[: number + 1]) for number in range(len(parts))]

"""Which filesystems a transaction changes: a repository may be spread over several.

`.git/objects` can be a mount, or a symbolic link to one. syncfs(2) is of one filesystem: that of
its descriptor (its man page).
"""

import os

from impl.durability.port import Port


class Filesystems:
    """What a transaction has touched, by device number (`st_dev`)."""

    def __init__(self, port: Port, git_directory: str) -> None:
        """Nothing is touched yet.

        :param git_directory: stands for its filesystem; it is there as long as the repository is.
        """
        self._port = port
        self._git_directory = git_directory
        self._seen: dict[int, str] = {}

    def of_file(self, descriptor: int, path: str) -> int:
        """The device of an open file. Raises OSError."""
        device = self._port.fstat(descriptor).st_dev
        self._seen.setdefault(device, os.path.dirname(path))
        return device

    def of_path(self, path: str) -> int:
        """The device of what is at a path, or of the nearest directory above it that is there.

        Raises OSError.
        """
        while True:
            try:
                device = self._port.stat(path).st_dev
            except (FileNotFoundError, NotADirectoryError):
                path = os.path.dirname(path)
                continue
            self._seen.setdefault(device, path)
            return device

    def is_own(self, device: int) -> bool:
        """Whether the repository's own directory is on that device. Raises OSError."""
        return self._port.stat(self._git_directory).st_dev == device

    def directory(self, device: int) -> str:
        """A directory on that device: the repository's own, or the highest above what was seen,
        which no command removes. Raises OSError."""
        if self.is_own(device):
            return self._git_directory
        path = self._seen[device]
        while self._port.stat(above := os.path.dirname(path)).st_dev == device and above != path:
            path = above
        return path

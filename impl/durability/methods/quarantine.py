"""A quarantine: an object directory of a transaction's own, from which objects move at its end."""

from impl.durability.method import Surroundings

PREFIX = "tmp_objdir-bulk-fsync-"
"""git's name for it: `git prune` removes what a crash leaves behind, by this name."""


class Quarantine:
    """Made when it is first used, removed when it has been emptied.

    :ivar directory: where it is; empty as long as it is not made.
    """

    def __init__(self, surroundings: Surroundings) -> None:
        """For one transaction; nothing is made yet."""
        self._surroundings = surroundings
        self._objects = f"{surroundings.git_directory}/objects"
        self._fan_outs: set[str] = set()
        self.directory = ""

    def path_of(self, final: str) -> str:
        """Where a loose object of the main store waits; makes the directory for it."""
        if not self.directory:
            names = self._surroundings.names
            self.directory = names.make_unused_directory(f"{self._objects}/{PREFIX}", 0o700)
            self._make("pack")
        fan_out, _, rest = final[len(self._objects) + 1 :].partition("/")
        self._make(fan_out)
        return f"{self.directory}/{fan_out}/{rest}"

    def _make(self, name: str) -> None:
        if name not in self._fan_outs:
            self._surroundings.port.make_directory(f"{self.directory}/{name}")
            self._fan_outs.add(name)

    def remove(self) -> None:
        """Remove its directories, which must be empty by now. After an error it can be repeated."""
        if not self.directory:
            return
        port = self._surroundings.port
        for name in sorted(self._fan_outs):
            port.remove_directory(f"{self.directory}/{name}")
            self._fan_outs.discard(name)
        port.remove_directory(self.directory)
        self.directory = ""

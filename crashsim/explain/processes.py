"""The processes of a trace: what each was started as, and where it works."""

from collections.abc import Mapping, Sequence

from crashsim.explain import strace
from crashsim.explain.strace import Call

FORKS = frozenset({"fork", "vfork", "clone", "clone3"})
_ANCESTORS_MAX = 64


class Processes:
    """Commands and working directories, inherited from parent to child.

    :ivar root: where the traced filesystem is mounted, absolute.
    """

    def __init__(self, root: str) -> None:
        """Nothing is known before `begin`."""
        self.root = root
        self._start = root
        self._parents: dict[int, int] = {}
        self._commands: dict[int, str] = {}
        self._working: dict[int, str] = {}

    def begin(self, directory: str, calls: Sequence[Call]) -> None:
        """Forget all processes: their numbers mean nothing in another trace.

        :param directory: where the first process works.
        :param calls: the whole new trace: a child may be heard of before its parent's fork returns.
        """
        self._start = directory
        self._commands.clear()
        self._working.clear()
        self._parents = {
            call.result: call.process
            for call in calls
            if call.name in FORKS and call.ok and call.result
        }

    def notice(self, call: Call) -> None:
        """Learn from a call where its process works and what it is."""
        for argument in call.arguments:
            if argument.startswith("AT_FDCWD<"):
                self._working[call.process] = strace.descriptor(argument).path
        if not call.ok or not call.arguments:
            return
        if call.name == "execve" and len(call.arguments) > 1:
            self._commands[call.process] = " ".join(strace.strings(call.arguments[1]))
        elif call.name == "chdir":
            path = self.absolute(call, None, call.arguments[0])
            if path is not None:
                self._working[call.process] = path
        elif call.name == "fchdir":
            self._working[call.process] = strace.descriptor(call.arguments[0]).path

    def command(self, process: int) -> str:
        """What a process was started as; empty where that was not seen."""
        return self._inherited(self._commands, process, "")

    def absolute(self, call: Call, directory: str | None, argument: str) -> str | None:
        """The absolute path that an argument means; None where it is no string.

        :param directory: the argument with the directory's descriptor, for the *at() calls.
        """
        text = strace.string(argument)
        if text is None:
            return None
        if directory is None:
            base = self._inherited(self._working, call.process, self._start)
        else:
            base = strace.descriptor(directory).path
        return strace.joined(base, text)

    def below(self, absolute: str | None) -> str | None:
        """A path relative to the root; None where it is not below it."""
        if absolute is None:
            return None
        if absolute == self.root:
            return ""
        inside = absolute.startswith(self.root + "/")
        return absolute[len(self.root) + 1 :] if inside else None

    def _inherited(self, table: Mapping[int, str], process: int, default: str) -> str:
        """A process's entry of a table, or that of the nearest ancestor that has one."""
        for _ in range(_ANCESTORS_MAX):
            if process in table:
                return table[process]
            if process not in self._parents:
                break
            process = self._parents[process]
        return default

"""The store's operations on the simulated machine: what a person types, as data.

The program is found by entry point (group `crashsim.simulated_programs`), so that nothing of a
store is imported here: `call(port, directory, arguments, environment, standard_input)` runs one
command and returns (exit code, output, errors).
"""

import importlib.metadata
import os
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

from crashsim.errors import UsageError
from crashsim.model.simulated import Simulated
from crashsim.model.tree import EMPTY_TREE, Tree
from crashsim.workloads.git_steps import unique_content

PROGRAM = "impl"
"""The reference store, as a target and as a package."""

PROGRAMS_GROUP = "crashsim.simulated_programs"
WORKTREE = "/repo"
_CONFIGURATION = "/home/.gitconfig"
_DATE = "2005-04-07T22:13:13 +0000"
_ENVIRONMENT = MappingProxyType(
    {
        "HOME": "/home",
        "GIT_CONFIG_GLOBAL": _CONFIGURATION,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": _DATE,
        "GIT_COMMITTER_DATE": _DATE,
    }
)

Call = Callable[[Simulated, str, Sequence[str], Mapping[str, str], bytes], tuple[int, bytes, str]]


class NoSimulatedProgram(UsageError):
    """No program of that name can run on the simulated machine."""


class OperationFailed(UsageError):
    """A command of the program under test failed without any crash."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command line; the words are the program's arguments."""

    arguments: tuple[str, ...]
    standard_input: str | bytes = ""

    @property
    def name(self) -> str:
        """Of the program's command: the first word behind settings of its own (`-c KEY=VALUE`)."""
        words = list(self.arguments)
        while words[0] == "-c":
            del words[:2]
        return words[0]


@dataclass(frozen=True, slots=True)
class StoreOperation:
    """One thing that a person does and then believes to be saved.

    :ivar fresh: how many files with new names come into being before.
    :ivar changed: how many files get new content before.
    :ivar once: it creates references, which can be there only once.
    :ivar needs: names of operations of which one must have been made before.
    :ivar unnoted_between: as in the git oracle's promises.
    :ivar one_transaction: as in the git oracle's promises.
    """

    name: str
    commands: tuple[Command, ...]
    fresh: int = 0
    changed: int = 0
    once: bool = False
    needs: tuple[str, ...] = ()
    unnoted_between: tuple[str, ...] = ()
    one_transaction: bool = False


def operation(name: str, *lines: str, standard_input: str = "", **facts: object) -> StoreOperation:
    """An operation of these command lines, words separated by spaces; facts as of its fields."""
    commands = tuple(Command(tuple(line.split()), standard_input) for line in lines)
    return StoreOperation(name, commands, **facts)  # type: ignore[arg-type]


OPERATIONS: Mapping[str, StoreOperation] = MappingProxyType(
    {
        each.name: each
        for each in (
            operation("add", "add --all", fresh=2),
            operation("commit", "add --all", "commit -q -m commit", fresh=1, changed=1),
            operation(
                "update-refs",
                "update-ref --stdin",
                standard_input="create refs/heads/a HEAD\ncreate refs/heads/b HEAD\n",
                once=True,
                one_transaction=True,
            ),
            operation("tag", "tag -a -m tag v1", once=True),
            operation("pack-refs", "pack-refs --all --prune"),
            operation("stash", "stash push -q -u -m stash", fresh=1, changed=1),
            operation("stash-pop", "stash pop -q", needs=("stash",), unnoted_between=("index",)),
            operation("repack", "repack -q -a -d"),
            operation("gc", "gc -q --prune=now"),
            operation(
                "multi-pack-index", "repack -q -a -d", "multi-pack-index write --no-progress"
            ),
        )
    }
)
"""Every operation makes sense on its own on a repository with one commit, unless it `needs`."""


def program(name: str) -> Call:
    """The program of that name. Raises NoSimulatedProgram."""
    for entry in importlib.metadata.entry_points(group=PROGRAMS_GROUP, name=name):
        call: Call = entry.load()
        return call
    raise NoSimulatedProgram(
        f"no program called {name!r} can run on the simulated machine: install crashsim with pip, "
        f"or a package with an entry point of group {PROGRAMS_GROUP}"
    )


@dataclass
class StoreMachine:
    """A simulated machine with a store and a person who uses it.

    :ivar settings: `-c` settings of every command, as KEY=VALUE.
    :ivar start: boots a machine of another kind.
    :ivar machine: what all of it happens on.
    :ivar commands: each command that was run: the number of its first operation, and its name.
    """

    call: Call
    settings: Sequence[str] = ()
    base: Tree = EMPTY_TREE
    seed: int = 0
    start: Callable[[Tree], Simulated] = Simulated
    machine: Simulated = field(init=False)
    commands: list[tuple[int, str]] = field(init=False, default_factory=list)
    _chooser: random.Random = field(init=False)
    _written: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        """Boot from `base`."""
        self.machine = self.start(self.base)
        # By the base, too: what made the base drew its contents in the same way.
        self._chooser = random.Random(f"store:{self.seed}:{self.base.digest}")

    def set_up(self, *, ref_format: str = "files", object_format: str = "sha1") -> None:
        """Make a repository with one commit. What it holds is durable in the tree that is
        `machine.tree()` afterwards, if that becomes another machine's base."""
        for directory in ("/home", WORKTREE):
            self.machine.make_directory(directory)
        self.write(_CONFIGURATION, b"[user]\n\tname = Crash Test\n\temail = crash@localhost\n")
        formats = (f"--ref-format={ref_format}", f"--object-format={object_format}")
        self.run(Command(("init", "-q", "--initial-branch=main", *formats)))
        self.write_files(3, 0)
        self.run(Command(("add", "--all")))
        self.run(Command(("commit", "-q", "-m", "base")))

    def do(self, operation: StoreOperation) -> None:
        """Write the operation's files, then run its commands. Raises OperationFailed."""
        self.write_files(operation.fresh, operation.changed)
        for command in operation.commands:
            self.run(command)

    def run(self, command: Command) -> bytes:
        """Run one command; its output. Raises OperationFailed."""
        code, output, errors = self.attempt(command)
        if code != 0:
            told = errors.strip() or "it printed nothing"
            raise OperationFailed(f"{' '.join(command.arguments)} exited with {code}: {told}")
        return output

    def attempt(self, command: Command) -> tuple[int, bytes, str]:
        """Run one command, which may fail: its exit code, output and errors."""
        settings = [word for setting in self.settings for word in ("-c", setting)]
        self.commands.append((len(self.machine.operations), command.name))
        given = command.standard_input
        return self.call(
            self.machine,
            WORKTREE,
            (*settings, *command.arguments),
            _ENVIRONMENT,
            given.encode() if isinstance(given, str) else given,
        )

    def write(self, path: str, content: bytes) -> None:
        """Write a file the way that an editor does, unsynced."""
        descriptor = self.machine.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        self.machine.write(descriptor, content)
        self.machine.close(descriptor)

    def write_files(self, fresh: int, changed: int) -> None:
        """New content everywhere: an object that is there already would hide a lost one."""
        tracked = sorted(name for name in self.machine.list_directory(WORKTREE) if name != ".git")
        for name in tracked[:changed]:
            self.write(f"{WORKTREE}/{name}", self._content())
        for _ in range(fresh):
            self._written += 1
            self.write(f"{WORKTREE}/file-{len(tracked) + self._written}", self._content())

    def _content(self) -> bytes:
        return unique_content(self._chooser, self._chooser.randrange(2))

"""The command line: `python -m impl` and `refgit`, with git's words.

    refgit [-C DIR] [-c KEY=VALUE]… [--git-dir DIR] [--stats FILE] COMMAND [ARGUMENT…]

A command is a module with `run(context, arguments) -> int` (its exit code), imported only when it
is called: start-up is most of a short command's time.
"""

import importlib
import os
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple

from impl.context import Context
from impl.durability.port import OsPort, Port
from impl.errors import NotARepository, StoreError, UsageError
from impl.repository import discover

COMMANDS = {
    name: f"impl.porcelain.{name.replace('-', '_')}"
    for name in (
        *("add", "branch", "cat-file", "commit", "commit-tree", "config", "count-objects"),
        *("for-each-ref", "fsck"),
        *("gc", "hash-object", "index-pack", "init", "ls-files", "multi-pack-index"),
        *(
            "pack-objects",
            "pack-refs",
            "prune",
            "prune-packed",
            "read-tree",
            "reflog",
            "refs",
            "repack",
        ),
        *(
            "reset",
            "rev-list",
            "rev-parse",
            "show-ref",
            "stash",
            "status",
            "switch",
            "symbolic-ref",
            "tag",
        ),
        *("unpack-objects", "update-index", "update-ref", "verify-pack", "write-tree"),
    )
}
"""Command -> the module that runs it."""

_RECURSION_MAX = 10_000
"""Trees are walked by recursion, and a path of PATH_MAX bytes can have 2,048 components."""

_USAGE = "usage: refgit [-C DIR] [-c KEY=VALUE]... [--stats FILE] COMMAND [ARGUMENT...]"


class Invocation(NamedTuple):
    """A parsed command line."""

    directory: str
    overrides: tuple[str, ...]
    environment: dict[str, str]
    stats: str | None
    command: str
    arguments: tuple[str, ...]


_WITH_VALUE = {
    "-C": "directory",
    "-c": "setting",
    "--git-dir": "GIT_DIR",
    "--work-tree": "GIT_WORK_TREE",
    "--stats": "stats",
}
_ALONE = ("--help", "-h", "--version")


def parse(arguments: Sequence[str], directory: str, environment: dict[str, str]) -> Invocation:
    """Take the global options apart. Raises UsageError."""
    overrides: list[str] = []
    stats: str | None = None
    rest = list(arguments)
    while rest and rest[0].startswith("-") and rest[0] not in _ALONE:
        name, separator, value = rest.pop(0).partition("=")
        meaning = _WITH_VALUE.get(name)
        if meaning is None or (separator and not name.startswith("--")):
            raise UsageError(f"unknown option: {name}\n{_USAGE}")
        if not separator:
            if not rest:
                raise UsageError(f"no value given for {name}\n{_USAGE}")
            value = rest.pop(0)
        if meaning == "directory":
            directory = os.path.normpath(os.path.join(directory, value))
        elif meaning == "setting":
            overrides.append(value)
        elif meaning == "stats":
            stats = value
        else:
            environment[meaning] = value
    if not rest:
        raise UsageError(_USAGE)
    return Invocation(directory, tuple(overrides), environment, stats, rest[0], tuple(rest[1:]))


def run(context: Context, command: str, arguments: Sequence[str]) -> int:
    """Run one command; its exit code. Raises StoreError, OSError."""
    if command not in COMMANDS:
        raise UsageError(f"'{command}' is not a command; there are: {' '.join(sorted(COMMANDS))}")
    module = importlib.import_module(COMMANDS[command])
    code: int = module.run(context, list(arguments))
    if context.has_repository:
        context.repository.maintain()
    context.output.flush()
    return code


def _run(context: Context, invocation: Invocation) -> int:
    if invocation.command == "--version":
        print("refgit 0.1.0 (reads and writes git repositories)")
        return 0
    if invocation.command in ("--help", "-h", "help"):
        print(_USAGE + "\n\ncommands: " + " ".join(sorted(COMMANDS)))
        return 0
    return run(context, invocation.command, invocation.arguments)


def _context(port: Port, invocation: Invocation) -> Context:
    return Context(port, invocation.directory, invocation.overrides, invocation.environment)


def _run_counted(invocation: Invocation, statistics: str) -> int:
    """Run the command, and then write down which system calls it made, even if it failed."""
    from impl.durability.counting import CountingPort, write_statistics

    counting = CountingPort(OsPort())
    context = _context(counting, invocation)
    try:
        return _run(context, invocation)
    finally:
        path = os.path.join(invocation.directory, statistics)
        write_statistics(counting, OsPort(), path, _git_directory(context))


def _git_directory(context: Context) -> str | None:
    """The repository that a command used, or (by `init`) has just made; None if there is none."""
    if context.has_repository:
        return context.repository.git_directory
    try:
        return discover(OsPort(), context.directory, context.environment).git_directory
    except NotARepository:
        return None


def _stop(number: int, _: object) -> None:
    """A signal that asks the process to end: locks and temporary files are removed on the way."""
    raise SystemExit(128 + number)


def complain(error: StoreError | OSError) -> int:
    """Tell on standard error why a command failed, as git does; the exit code that goes with it."""
    if isinstance(error, OSError):
        paths = [str(path) for path in (error.filename, error.filename2) if path is not None]
        sys.stderr.write(f"fatal: {error.strerror}: {' -> '.join(paths) or 'standard output'}\n")
        return 128
    prefix = "" if isinstance(error, UsageError) else "fatal: "
    sys.stderr.write(f"{prefix}{error}\n")
    return error.exit_code


def main(arguments: Sequence[str] | None = None) -> int:
    """The program. Returns the exit code: 0, 1 where git has a 1, 128 or 129 for errors."""
    sys.setrecursionlimit(_RECURSION_MAX)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _stop)
    try:
        invocation = parse(
            sys.argv[1:] if arguments is None else arguments, os.getcwd(), dict(os.environ)
        )
        if invocation.stats is None:
            return _run(_context(OsPort(), invocation), invocation)
        return _run_counted(invocation, invocation.stats)
    except BrokenPipeError:
        # The reader of the output went away, as `head` does: nothing to tell anybody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except (StoreError, OSError) as error:
        sys.stdout.flush()
        return complain(error)
    except KeyboardInterrupt:
        return 130

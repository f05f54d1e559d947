"""The reference store's command line, run as a program; and real git in the same surroundings."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

METHODS = (
    "fsync",
    "writeout-only",
    "batch",
    "bulk-rename",
    "index-flush",
    "index-flush-proposed",
    "pack-idx-flush",
    "barrier",
    "strict",
    "paired-syncfs",
)


def fixed_environment(home: Path) -> dict[str, str]:
    """In which neither program depends on this host, and names of commits repeat."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    who = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (
            ("NAME", role.title()),
            ("EMAIL", f"{role.lower()}@example.org"),
            ("DATE", "1700000000 +0130"),
        )
    }
    fixed = {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C", "TZ": "UTC"}
    return {**clean, **who, **fixed, "PYTHONPATH": str(ROOT)}


@dataclass(frozen=True)
class Program:
    """git, or this store, in one directory.

    :ivar words: the command's first words.
    :ivar directory: where it runs.
    """

    words: Sequence[str]
    directory: Path
    environment: Mapping[str, str]

    def run(
        self, *arguments: str, stdin: bytes = b"", wrapper: Sequence[str] = ()
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run a command, whatever its exit code."""
        return subprocess.run(
            [*wrapper, *self.words, *arguments],
            cwd=self.directory,
            env=dict(self.environment),
            input=stdin,
            capture_output=True,
            timeout=120,
            check=False,
        )

    def __call__(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run a command that must succeed; what it printed, without the last end of line."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, (arguments, done.stderr.decode())
        return done.stdout.decode("utf-8", "surrogateescape").removesuffix("\n")

    def having(self, *options: str) -> "Program":
        """The same program with options before every command (`-c`, `core.fsync=all`)."""
        return Program((*self.words, *options), self.directory, self.environment)


def store(directory: Path) -> Program:
    """This store. `directory` has to exist."""
    words = (sys.executable, "-m", "impl")
    return Program(words, directory, fixed_environment(directory.parent))


def git(directory: Path) -> Program:
    """The host's git, with its automatic maintenance off."""
    words = ("git", "-c", "gc.auto=0", "-c", "maintenance.auto=false")
    return Program(words, directory, fixed_environment(directory.parent))


def assert_git_accepts(directory: Path) -> None:
    """`git fsck --strict --full` finds nothing, and the index reads."""
    done = git(directory).run("fsck", "--strict", "--full", "--no-dangling")
    said = [line for line in done.stderr.decode().splitlines() if not line.startswith("notice:")]
    assert done.returncode == 0, said
    assert not said
    git(directory)("ls-files", "-s")

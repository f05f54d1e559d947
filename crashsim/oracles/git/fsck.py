"""`git fsck` in the guest, as a second opinion on what the in-process checker says."""

from collections.abc import Sequence
from dataclasses import dataclass

from crashsim.machines.protocol import CommandResult, Guest
from crashsim.oracles.protocol import Inconclusive, Property, Violation

CRASHED_FROM = 130
"""Exit codes of a shell from here on mean that a signal ended git; 128 and 129 are git's own."""

_FOUND_BY_FSCK = {Property.INTACT, Property.RECOVERABLE}

_ENVIRONMENT = """\
export LC_ALL=C HOME=/nonexistent GIT_CONFIG_NOSYSTEM=1 GIT_OPTIONAL_LOCKS=0 GIT_DIR="$1"
export GIT_AUTHOR_NAME=crashsim GIT_AUTHOR_EMAIL=crashsim@localhost
export GIT_COMMITTER_NAME=crashsim GIT_COMMITTER_EMAIL=crashsim@localhost
"""
FSCK = "git fsck --full --strict --no-dangling --no-progress"
_SCRIPT = _ENVIRONMENT + FSCK


@dataclass(frozen=True, slots=True)
class FsckReport:
    """What `git fsck --full --strict` said.

    :ivar complaints: its lines, errors and warnings.
    """

    returncode: int
    complaints: tuple[str, ...]

    @property
    def is_clean(self) -> bool:
        """Whether it found nothing wrong; it passes much that is wrong."""
        return self.returncode == 0

    def agrees_with(self, violations: Sequence[Violation]) -> bool:
        """Whether both opinions on *intact* and *recoverable* are the same.

        fsck clean and violations found is no error: fsck does not look at empty packed-refs or
        tables.list, at configs, nor at most derived files.
        """
        return self.is_clean != any(found.property in _FOUND_BY_FSCK for found in violations)


def shell_environment() -> str:
    """Lines of a shell script that make git independent of the guest; $1 is the git directory."""
    return _ENVIRONMENT


def read_report(returncode: int, output: str) -> FsckReport:
    """A report from an exit code and output; Inconclusive when a signal ended git."""
    lines = tuple(line for line in output.splitlines() if line)
    if returncode >= CRASHED_FROM or returncode < 0:
        last = lines[-1] if lines else "no output"
        raise Inconclusive(f"git fsck crashed with {returncode}: {last}")
    return FsckReport(returncode, lines)


def cross_check(
    guest: Guest, root: str, git_dir: str = "repo/.git", timeout_seconds: float = 120.0
) -> FsckReport:
    """Run `git fsck` on the filesystem that is mounted at `root`; changes nothing.

    Raises Inconclusive when it hangs or crashes.
    """
    path = f"{root.rstrip('/')}/{git_dir}"
    result = guest.run(
        ["/bin/sh", "-c", _SCRIPT, "fsck", path], cwd=root, timeout_seconds=timeout_seconds
    )
    if result.timed_out:
        raise Inconclusive(f"git fsck did not end within {timeout_seconds:g} s")
    return read_report(result.returncode, output_text(result))


def output_text(result: CommandResult) -> str:
    """Everything that a command printed."""
    return (result.stdout + result.stderr).decode("utf-8", "replace")

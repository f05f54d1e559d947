"""Any command as the oracle: exit code 0 if all holds, 1 if a promise is broken (DESIGN 5)."""

import shlex
from collections.abc import Mapping, Sequence

from crashsim.machines.protocol import CommandResult, Guest
from crashsim.machines.tree import Tree
from crashsim.oracles.protocol import Inconclusive, Moment, Property, Violation

PROMISES_VARIABLE = "CRASHSIM_PROMISES"
_HARNESS_MARK = '{"crashsim"'
_PROMISES_PATH = "/tmp/crashsim-promises"
_DETAIL_LINES = 5
_DETAIL_CHARACTERS = 500


class CommandOracle:
    """Judges a recovered filesystem by a shell command that runs in its root, in the guest."""

    properties: Sequence[Property] = (Property.DURABLE,)

    def __init__(self, check: str, timeout_seconds: float = 60.0) -> None:
        """Take the command.

        :param check: for `/bin/sh -c`; it finds the promises in the file $CRASHSIM_PROMISES.
        :param timeout_seconds: how long it may take before it counts as hung.
        """
        self._check = check
        self._timeout_seconds = timeout_seconds

    def judge(self, tree: Tree, moment: Moment) -> list[Violation]:
        """Nothing can be said without running the command."""
        return []

    def exercise_key(self, tree: Tree, moment: Moment) -> object | None:
        """The tree and the promises: all that the command gets to see."""
        return tree.identity, _promises(moment)

    def exercise(self, guest: Guest, root: str, tree: Tree, moment: Moment) -> list[Violation]:
        """Run the command. Raises Inconclusive for anything but exit code 0 or 1 in time."""
        text = "".join(f"{promise}\n" for promise in _promises(moment))
        guest.write_file(_PROMISES_PATH, text.encode("utf-8", "surrogateescape"))
        result = guest.run(
            ["/bin/sh", "-c", self._check],
            cwd=root,
            env={PROMISES_VARIABLE: _PROMISES_PATH},
            timeout_seconds=self._timeout_seconds,
        )
        command = shlex.quote(self._check)
        if result.timed_out:
            raise Inconclusive(f"the check {command} did not end in {self._timeout_seconds:g} s")
        if result.returncode == 0:
            return []
        if result.returncode == 1:
            return [Violation(Property.DURABLE, "check-failed", ".", _last_words(result))]
        raise Inconclusive(
            f"the check {command} ended with {result.returncode}, "
            f"neither 0 (holds) nor 1 (broken): {_last_words(result)}"
        )

    def second_opinion(self, guest: Guest, root: str) -> Mapping[str, str]:
        """None: the command is the only one who knows."""
        return {}


def _promises(moment: Moment) -> tuple[str, ...]:
    """The promises that a person made: the harness notes its own start and end as marks, too."""
    return tuple(text for text in moment.promises if not text.startswith(_HARNESS_MARK))


def _last_words(result: CommandResult) -> str:
    output = (result.stdout + b"\n" + result.stderr).decode("utf-8", "replace")
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return " / ".join(lines[-_DETAIL_LINES:])[-_DETAIL_CHARACTERS:] or "it printed nothing"

"""Goes on working with a recovered repository, with real git in the guest: *usable*.

One shell script, since each round trip and each process costs: it removes stale locks (the policy
of `GitOracle`), runs `git fsck`, adds every file of the worktree and a new one again, reads back
every object that the index then names, commits, runs `git gc`, and runs `git fsck` again.

Rules: `add-failed`, `added-object-unreadable`, `commit-failed`; `gc-failed` and `gc-lost-refs`,
which are told only of a repository that was whole before; and `fsck-complains`, when fsck still
finds something after gc in a repository in which the in-process checker found nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from crashsim.machines.protocol import Guest
from crashsim.oracles.git.fsck import CRASHED_FROM, FSCK, output_text, shell_environment
from crashsim.oracles.git.rules import violation
from crashsim.oracles.protocol import Inconclusive, Property, Violation

_PREFIX = "crashsim-exercise"
_STEPS = ("fsck", "refs", "add", "read", "commit", "gc", "fsck-again", "refs-again")
_SCRIPT = (
    shell_environment()
    + f"""\
export GIT_WORK_TREE="$2"
set -u
mkdir -p "$GIT_WORK_TREE" && cd "$GIT_WORK_TREE" || exit 3
out=$(mktemp) || exit 3
step() {{
    name=$1; shift
    "$@" >"$out" 2>&1
    echo "{_PREFIX} $name $?"
    tail -n 200 "$out"
}}
add() {{
    find . -name .git -prune -o -type f -exec touch -c {{}} + &&
    echo "{_PREFIX} $$" >{_PREFIX} && git add --all
}}
read_back() {{
    git ls-files --stage >"$out.ls" || return 1
    grep -v ^160000 "$out.ls" | cut -d ' ' -f 2 | git cat-file --batch >"$out.objects" || return 1
    ! grep -a ' missing$' "$out.objects"
}}
refs() {{ git for-each-ref --format='%(refname) %(objectname)'; }}
find "$GIT_DIR" -type f '(' -name '*.lock' -o -name gc.pid ')' -delete
step fsck {FSCK}
step refs refs
step add add
step read read_back
step commit git commit --quiet --allow-empty --no-verify --message {_PREFIX}
step gc git -c gc.auto=1 gc --quiet
step fsck-again {FSCK}
step refs-again refs
rm -f "$out" "$out.ls" "$out.objects"
"""
)
_LINE = re.compile(rf"{_PREFIX} ([a-z-]+) (\d+)")


@dataclass(frozen=True, slots=True)
class StepResult:
    """How one step of the script ended."""

    returncode: int
    lines: tuple[str, ...]

    @property
    def why(self) -> str:
        """Why it failed: its first error, else its last words."""
        errors = [line for line in self.lines if line.startswith(("error: ", "fatal: "))]
        return [*errors, *self.lines[-1:], f"exit code {self.returncode}"][0]


def run_exercise(
    guest: Guest,
    git_dir: str,
    worktree: str,
    judged: Sequence[Violation],
    timeout_seconds: float = 180.0,
) -> list[Violation]:
    """Exercise the repository; both paths are absolute, in the guest. Changes the repository.

    :param judged: what the in-process checker says of the same tree.
    Raises Inconclusive when git hangs, crashes, or the script does not get to its end.
    """
    result = guest.run(
        ["/bin/sh", "-c", _SCRIPT, "exercise", git_dir, worktree],
        timeout_seconds=timeout_seconds,
        output_limit_bytes=4 << 20,
    )
    if result.timed_out:
        raise Inconclusive(f"going on with {git_dir} did not end within {timeout_seconds:g} s")
    steps = parse_steps(result.stdout.decode("utf-8", "replace"))
    missing = [name for name in _STEPS if name not in steps]
    if result.returncode != 0 or missing:
        last = output_text(result).strip().splitlines()[-1:]
        raise Inconclusive(f"the exercise ended with {result.returncode}, before {missing}: {last}")
    for name, step in steps.items():
        if step.returncode >= CRASHED_FROM:
            raise Inconclusive(f"git crashed in {name} with {step.returncode}: {step.why}")
    return decide(steps, git_dir, judged)


def parse_steps(output: str) -> dict[str, StepResult]:
    """The steps in the script's output, by name."""
    steps: dict[str, StepResult] = {}
    name = ""
    for line in output.splitlines():
        match = _LINE.fullmatch(line)
        if match:
            name = match[1]
            steps[name] = StepResult(int(match[2]), ())
        elif name and line:
            steps[name] = StepResult(steps[name].returncode, (*steps[name].lines, line))
    return steps


def decide(
    steps: dict[str, StepResult], git_dir: str, judged: Sequence[Violation]
) -> list[Violation]:
    """Violations from the steps' results."""
    found = []
    if steps["add"].returncode:
        found.append(violation("add-failed", git_dir, f"git add fails: {steps['add'].why}"))
    if steps["read"].returncode:
        detail = f"an object of the index cannot be read after git add: {steps['read'].why}"
        found.append(violation("added-object-unreadable", git_dir, detail))
    if steps["commit"].returncode:
        found.append(
            violation("commit-failed", git_dir, f"git commit fails: {steps['commit'].why}")
        )
    if any(one.property in (Property.INTACT, Property.RECOVERABLE) for one in judged):
        return found
    if steps["gc"].returncode:
        found.append(violation("gc-failed", git_dir, f"git gc fails: {steps['gc'].why}"))
    before, after = (
        {line.partition(" ")[0] for line in steps[name].lines} for name in ("refs", "refs-again")
    )
    if before - after:
        detail = f"after git gc {len(before - after)} refs are gone: {min(before - after)}"
        found.append(violation("gc-lost-refs", git_dir, detail))
    if steps["fsck-again"].returncode and not judged:
        detail = f"git fsck, which this checker should agree with: {steps['fsck-again'].why}"
        found.append(violation("fsck-complains", git_dir, detail))
    return found

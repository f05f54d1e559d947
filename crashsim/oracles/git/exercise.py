"""Goes on working with a recovered repository, with real git in the guest: *usable*.

One shell script, since each round trip and each process costs: it removes stale locks (the policy
of `GitOracle`), adds every file of the worktree and a new one again, reads every object that the
index then names, commits, packs refs and objects as `git gc` does, and runs `git fsck`.

Rules: `add-failed`, `added-object-unreadable`, `commit-failed`; `pack-refs-failed`,
`repack-failed` and `packing-lost-refs`, which are told only of a repository that was whole before;
and `fsck-complains`, when fsck finds something, even after packing, in a repository in which the
in-process checker found nothing.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from crashsim.machines.protocol import Guest
from crashsim.oracles.git.fsck import CRASHED_FROM, FSCK, output_text, shell_environment
from crashsim.oracles.git.rules import violation
from crashsim.oracles.protocol import Inconclusive, Property, Violation

_PREFIX = "crashsim-exercise"
_STEPS = ("add", "read", "commit", "pack-refs", "repack", "fsck", "refs")
_SCRIPT = (
    shell_environment()
    + f"""\
export GIT_WORK_TREE="$2"
set -u
mkdir -p "$GIT_WORK_TREE" && cd "$GIT_WORK_TREE" || exit 3
scratch=$(mktemp -d) || exit 3
step() {{
    name=$1; shift
    "$@" 2>&1
    echo "{_PREFIX} $name $?"
}}
add() {{
    find . -name .git -prune -o -type f -exec touch -c {{}} + &&
    echo "{_PREFIX} $$" >{_PREFIX} && git add --all
}}
find "$GIT_DIR" -type f '(' -name '*.lock' -o -name gc.pid ')' -exec rm -f {{}} +
step add add
step read git checkout-index --all --force --quiet --prefix="$scratch/"
step commit git -c gc.auto=0 commit --quiet --allow-empty --no-verify --message {_PREFIX}
step pack-refs git pack-refs --all
step repack git repack -a -d -q
step fsck {FSCK}
step refs git for-each-ref --format='%(refname)'
rm -rf "$scratch"
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
    root: str,
    git_dir: str,
    worktree: str,
    judged: Sequence[Violation],
    refs: Collection[str],
    timeout_seconds: float = 180.0,
) -> list[Violation]:
    """Exercise the repository. Changes it.

    :param root: where the filesystem is mounted in the guest; both paths are relative to it.
    :param judged: what the in-process checker says of the same tree.
    :param refs: names of the refs that are in it.
    Raises Inconclusive when git hangs, crashes, or the script does not get to its end.
    """
    result = guest.run(
        ["/bin/sh", "-c", _SCRIPT, "exercise", f"{root}/{git_dir}", f"{root}/{worktree}"],
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
    return decide(steps, git_dir, judged, refs)


def parse_steps(output: str) -> dict[str, StepResult]:
    """The steps in the script's output, by name: each one's lines, and then its exit code."""
    steps: dict[str, StepResult] = {}
    lines: list[str] = []
    for line in output.splitlines():
        match = _LINE.fullmatch(line)
        if match:
            steps[match[1]] = StepResult(int(match[2]), tuple(lines))
            lines = []
        elif line:
            lines.append(line)
    return steps


def decide(
    steps: Mapping[str, StepResult],
    git_dir: str,
    judged: Sequence[Violation],
    refs: Collection[str],
) -> list[Violation]:
    """Violations from the steps' results; the arguments are those of `run_exercise`."""
    whole = not any(one.property in (Property.INTACT, Property.RECOVERABLE) for one in judged)
    failures = {
        "add": ("add-failed", "git add fails"),
        "read": ("added-object-unreadable", "after git add, an object of the index is unreadable"),
        "commit": ("commit-failed", "git commit fails"),
    }
    if whole:
        failures["pack-refs"] = ("pack-refs-failed", "git pack-refs, and so git gc, fails")
        failures["repack"] = ("repack-failed", "git repack, and so git gc, fails")
    if not judged:
        failures["fsck"] = ("fsck-complains", "git fsck, with which the checker should agree, says")
    found = [
        violation(rule, git_dir, f"{what}: {steps[name].why}")
        for name, (rule, what) in failures.items()
        if steps[name].returncode
    ]
    lost = set(refs) - set(steps["refs"].lines)
    if whole and lost:
        detail = f"after git pack-refs and git repack {len(lost)} refs are gone: {min(lost)}"
        found.append(violation("packing-lost-refs", git_dir, detail))
    return found

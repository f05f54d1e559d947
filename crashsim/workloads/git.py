"""Real git as a workload: it runs in the guest, step by step, in a repository on the crash disk.

The repository exists, has one commit and is durable before the recording starts: how safe `git
init` is, is no question that people ask. git's configuration comes from a file outside of the
filesystem under test (`GIT_CONFIG_GLOBAL`), since git never syncs a repository's own; it reaches
the other side of a push too, for which git clears `GIT_CONFIG_COUNT` and the like.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from crashsim.machines.protocol import Guest
from crashsim.workloads import git_steps
from crashsim.workloads.git_options import GitOptions
from crashsim.workloads.protocol import Step, WorkloadFailed
from crashsim.workloads.staging import put_files

REPOSITORY = "repo"
GIT_DIRECTORY = f"{REPOSITORY}/.git"
REMOTE = "remote.git"
"""A bare repository beside it, that steps push to."""

STAGE = "/run/crashsim-git"
"""In the guest's memory: configuration, home, new files, and the repository to fetch from."""

BYTECODE = ".pyc"

_PREPARE_SECONDS = 300.0

_INIT = """
git init -q --template= $FORMATS "$1/repo"
cd "$1/repo"
echo base >base.txt
git add base.txt
git commit -q -m base
git init -q --bare --template= $FORMATS "$1/remote.git"
"""

_COMPILE = """
python3 -m compileall -q "$STAGE_ROOT"
"""

_INIT_UPSTREAM = """
git init -q --template= $FORMATS "$UPSTREAM"
cd "$UPSTREAM"
for branch in one two; do
    git switch -q -c $branch
    cp -R "$STAGE_ROOT/upstream-$branch/." .
    git add --all
    git commit -q -m $branch
done
git rev-parse one >one.tip
git rev-parse two >two.tip
echo one | git pack-objects -q --revs --stdout >one.pack
printf '%s\n' two ^one | git pack-objects -q --revs --stdout >two.pack
"""


@dataclass(frozen=True)
class GitWorkload:
    """A sequence of git commands; see `git_workload`.

    :ivar staged: group -> path -> content of the files that go to the guest's memory.
    :ivar has_upstream: whether a step fetches, so that there must be something to fetch from.
    :ivar git_directories: the repositories on the filesystem, relative to its root, main one first.
    :ivar program: the program under test, where the guest does not have it: path below `STAGE` ->
        content, of Python modules.
    """

    sequence: str
    options: GitOptions
    files: int
    seed: int
    steps: Sequence[Step]
    staged: Mapping[str, Mapping[str, bytes]] = field(repr=False)
    environment: Mapping[str, str]
    has_upstream: bool
    name: str = "git"
    git_directories: tuple[str, ...] = (GIT_DIRECTORY, REMOTE)
    program: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    @property
    def collect(self) -> Sequence[str]:
        """The repositories; of the working tree, digests are enough."""
        return self.git_directories

    def stage(self, guest: Guest) -> None:
        """Put everything into the guest's memory that the steps use, for repositories that are
        there already."""
        staged = {
            f"{group}/{path}": content
            for group, files in self.staged.items()
            for path, content in files.items()
        }
        configuration = self.options.configuration().encode()
        put_files(guest, STAGE, {"home/.gitconfig": configuration, **staged, **self.program})
        if self.program and not any(path.endswith(BYTECODE) for path in self.program):
            self._run(guest, _COMPILE, "/")

    def prepare(self, guest: Guest, root: str) -> None:
        """Make both repositories, and everything outside of the filesystem that the steps use."""
        self.stage(guest)
        self._run(guest, _INIT + _INIT_UPSTREAM if self.has_upstream else _INIT, root)

    def _run(self, guest: Guest, script: str, root: str) -> None:
        result = guest.run(
            ["sh", "-ec", script, "sh", root],
            env={**self.environment, "FORMATS": self._formats, "STAGE_ROOT": STAGE},
            timeout_seconds=_PREPARE_SECONDS,
        )
        if result.returncode != 0:
            raise WorkloadFailed(self.name, "the set-up", result)

    @property
    def _formats(self) -> str:
        words = [f"--object-format={self.options.object_format}"]
        if self.options.ref_format != "files":  # gits before 2.45 do not know the option
            words.append(f"--ref-format={self.options.ref_format}")
        return " ".join(words)

    def describe(self) -> Mapping[str, object]:
        """Sequence, options, number of files, and the seed that their contents follow from."""
        return {
            "sequence": self.sequence,
            "fsync": self.options.fsync,
            "method": self.options.method,
            "ref_format": self.options.ref_format,
            "object_format": self.options.object_format,
            "files": self.files,
            "seed": self.seed,
        }


def git_workload(
    sequence: str = "default", *, options: GitOptions | None = None, files: int = 8, seed: int = 0
) -> GitWorkload:
    """Real git, running a named sequence of steps (`git_steps.SEQUENCES`).

    :param options: of the program that runs the steps.
    :param files: how many new files each `add` and `stash` brings.
    :param seed: the contents of all files follow from it.

    Raises UnknownSequence.
    """
    steps = git_steps.sequence(sequence)
    has_upstream = any("$UPSTREAM" in step.script for step in steps)
    staged = dict(git_steps.stage_files(steps, files, seed))
    if has_upstream:
        staged |= git_steps.upstream_files(files, seed)
    return GitWorkload(
        sequence=sequence,
        options=options or GitOptions(),
        files=files,
        seed=seed,
        steps=tuple(as_step(step) for step in steps),
        staged=staged,
        environment=_environment(),
        has_upstream=has_upstream,
    )


def as_step(step: git_steps.GitStep) -> Step:
    """The step with its place: run in the repository, its files in `$STAGE`."""
    script = f'STAGE="{STAGE}/{step.name}"; {step.script}'
    return Step(step.name, ("sh", "-ec", script), REPOSITORY)


def _environment() -> Mapping[str, str]:
    date = "2005-04-07T22:13:13 +0000"
    return {
        "HOME": f"{STAGE}/home",
        "GIT_CONFIG_GLOBAL": f"{STAGE}/home/.gitconfig",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_DATE": date,
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
        "UPSTREAM": f"{STAGE}/upstream",
        # For a step in the repository's root, where git runs the other side of a push from.
        "REMOTE": f"../{REMOTE}",
    }

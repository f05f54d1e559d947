"""Repositories made by this host's real git, with a promise after each step."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from crashsim.machines.protocol import CommandResult
from crashsim.machines.tree import Tree
from crashsim.oracles.git import GitOracle, encode_promise, snapshot
from crashsim.oracles.protocol import Moment, Violation
from tests.support.host_tree import changed_tree, host_tree

GIT_DIR = "repo/.git"


def git_environment(home: Path) -> dict[str, str]:
    """An environment in which git depends on nothing of this host."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    who = {
        f"GIT_{role}_{what}": value
        for role in ("AUTHOR", "COMMITTER")
        for what, value in (("NAME", "t"), ("EMAIL", "t@example.org"))
    }
    date = "1700000000 +0000"
    fixed = {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    return {**clean, **who, **fixed, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}


@dataclass
class GitRepository:
    """A repository at `root/repo`, what it promised, and how it looked at each promise."""

    root: Path
    texts: list[str] = field(default_factory=list)
    trees: list[Tree] = field(default_factory=list)
    files_made: int = 0

    @property
    def path(self) -> Path:
        return self.root / "repo"

    def run(self, *arguments: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
        """Run git; the caller looks at its exit code."""
        return subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env=git_environment(self.root),
            input=stdin,
            capture_output=True,
            check=False,
        )

    def git(self, *arguments: str, stdin: bytes = b"") -> str:
        """Run git, which must succeed; what it printed."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode().strip()

    def init(self, *arguments: str) -> None:
        self.path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main", *arguments)
        self.git("config", "gc.auto", "0")
        self.promise("init")

    def promise(self, step: str, **more: object) -> None:
        """Promise the present state."""
        tree = host_tree(self.root)
        self.trees.append(tree)
        self.texts.append(encode_promise(step, snapshot(tree, GIT_DIR), **more))  # type: ignore[arg-type]

    def make_files(self, count: int) -> None:
        """New files in three directories; no content occurs twice."""
        for _ in range(count):
            self.files_made += 1
            number = self.files_made
            path = self.path / f"d{number % 3}" / f"f{number}"
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"file {number} of {self.root.name}\n" * (1 + number % 40))

    def commit(self, files: int = 3) -> str:
        """Make files, add and commit them, a promise after each step; the commit's name."""
        self.make_files(files)
        self.git("add", ".")
        self.promise("add")
        self.git("commit", "--quiet", "--message", f"commit with {self.files_made} files")
        self.promise("commit")
        return self.git("rev-parse", "HEAD")

    def stash(self) -> str:
        """Stash a change and a new file; the stash entry's object name."""
        tracked = self.git("ls-files").splitlines()[0]
        (self.path / tracked).write_text(f"changed after {self.files_made} files\n")
        self.make_files(1)
        self.git("stash", "push", "--quiet", "--include-untracked")
        self.promise("stash")
        return self.git("rev-parse", "refs/stash")

    def rules(self, tree: Tree | None = None, promises: int | None = None) -> set[str]:
        """The rules that a tree breaks: the last promised one, or `tree`."""
        return {one.rule for one in self.judge(tree or self.trees[-1], promises)}

    def judge(self, tree: Tree, promises: int | None = None) -> list[Violation]:
        """Judge a tree as if the power was cut after the first `promises` promises (all)."""
        made = self.texts if promises is None else self.texts[:promises]
        return GitOracle(self.texts, GIT_DIR, "repo").judge(tree, Moment(tuple(made)))

    def damaged(self, files: Mapping[str, bytes | None]) -> Tree:
        """The last promised tree with files of the git directory replaced or (None) removed."""
        return changed_tree(
            self.trees[-1], {f"{GIT_DIR}/{name}": content for name, content in files.items()}
        )

    def file(self, name: str) -> bytes:
        """The content of a file of the git directory at the last promise."""
        content = self.trees[-1].read(f"{GIT_DIR}/{name}")
        assert content is not None, name
        return content

    def names(self, prefix: str = "", suffix: str = "") -> list[str]:
        """Files of the git directory at the last promise."""
        start = f"{GIT_DIR}/"
        return [
            path.removeprefix(start)
            for path, node in self.trees[-1].nodes.items()
            if path.startswith(start + prefix) and path.endswith(suffix) and node.kind == "file"
        ]

    def loose_path(self, oid: str) -> str:
        return f"objects/{oid[:2]}/{oid[2:]}"


def write_tree(tree: Tree, root: Path) -> None:
    """Put a tree's files onto this host."""
    for path, node in tree.nodes.items():
        target = root / path
        if node.kind == "directory":
            target.mkdir(parents=True, exist_ok=True)
        elif node.kind == "file":
            target.parent.mkdir(parents=True, exist_ok=True)
            content = tree.read(path)
            assert content is not None
            target.write_bytes(content)


def run_on_host(argv: list[str], home: Path) -> CommandResult:
    """What a guest's `run` answers, from this host."""
    done = subprocess.run(
        argv, cwd=home, env=git_environment(home), capture_output=True, check=False
    )
    return CommandResult(done.returncode, done.stdout, done.stderr, 0.0)

"""git killed before each of its writes, links, renames and unlinks: nothing is lost, so no alarm.

Whatever a killed program leaves behind in a healthy filesystem is a state that it may pass through.
An oracle that complains of one would complain of every crash at that point.
"""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.git_repository import GitRepository, git_environment
from tests.support.host_tree import host_tree

SYSCALLS = ("rename", "link", "unlink", "write")
STEPS = {
    "add": ("add", "."),
    "commit": ("commit", "--quiet", "--all", "--message", "killed"),
    "stash": ("stash", "push", "--quiet", "--include-untracked"),
    "pack-refs": ("pack-refs", "--all", "--prune"),
    "repack": ("repack", "-adq"),
    "delete": ("branch", "--quiet", "-D", "side"),
}
KNOWN = {"packed-refs-new-left"}
"""Found by rename-kills of steps that write packed-refs, and true: see rules.py."""


def strace(log: Path, syscall: str, number: int, argv: list[str]) -> list[str]:
    """The command under strace, killed when it calls `syscall` for the `number`th time."""
    inject = f"inject={syscall}:signal=KILL:when={number}"
    return ["strace", "-f", "-qq", "-o", str(log), "-e", f"trace={syscall}", "-e", inject, *argv]


@pytest.fixture(scope="module", autouse=True)
def tracing(tmp_path_factory: pytest.TempPathFactory) -> None:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed: git cannot be killed at a system call")
    log = tmp_path_factory.mktemp("strace") / "log"
    done = subprocess.run(strace(log, "unlink", 1, ["true"]), capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"strace cannot trace here: {done.stderr.decode()}")


@pytest.mark.parametrize("name", STEPS)
def test_killed_anywhere(tmp_path: Path, name: str) -> None:
    repository = GitRepository(tmp_path / "fs")
    repository.init()
    repository.commit(files=2)
    repository.commit(files=2)
    repository.stash()
    repository.git("branch", "side", "HEAD~1")
    repository.git("pack-refs", "--all")
    repository.git("branch", "--force", "side", "HEAD")
    (repository.path / "d1/f1").write_text("changed\n")
    repository.make_files(1)
    repository.promise("before")
    before = tmp_path / "before"
    shutil.copytree(repository.root, before, symlinks=True)
    repository.git(*STEPS[name])
    repository.promise(name)
    judged = 0
    for syscall in SYSCALLS:
        for number in range(1, 100):
            shutil.rmtree(repository.root)
            shutil.copytree(before, repository.root, symlinks=True)
            log = tmp_path / "log"
            subprocess.run(
                strace(log, syscall, number, ["git", *STEPS[name]]),
                cwd=repository.path,
                env=git_environment(repository.root),
                capture_output=True,
                check=False,
            )
            killed = b"killed by SIGKILL" in log.read_bytes()
            tree = host_tree(repository.root)
            found = repository.judge(tree, promises=len(repository.texts) - 1)
            assert {one.rule for one in found} <= KNOWN, (syscall, number, found)
            judged += killed
            if not killed:
                break
    assert judged >= 4

"""Random damage to one file of a repository: whatever the oracle passes, git answers rightly.

`git fsck` is asked too: what it complains about, the oracle must find, derived files aside: git
complains of those and does without.
"""

import functools
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from crashsim.oracles.protocol import Inconclusive
from tests.support.git_repository import GIT_DIR, GitRepository

QUESTIONS: tuple[tuple[str, ...], ...] = (
    ("for-each-ref",),
    ("symbolic-ref", "HEAD"),
    ("rev-list", "--objects", "--all", "--reflog", "--indexed-objects"),
    ("rev-list", "--use-bitmap-index", "--objects", "--count", "--all"),
    ("log", "--all", "--format=%H %T %P %ct"),
    ("cat-file", "--batch-all-objects", "--batch-check", "--unordered"),
    ("ls-files", "--stage"),
    ("stash", "list"),
    ("reflog", "show", "--all"),
    ("config", "--list", "--local"),
)
DERIVED = ("rev", "bitmap", "multi-pack-index", "commit-graph")
IGNORED = ("hooks/", "description", "info/exclude", "COMMIT_EDITMSG", "objects/info/packs")


@dataclass(frozen=True)
class Subject:
    repository: GitRepository
    names: tuple[str, ...]
    answers: Mapping[tuple[str, ...], str]
    directory: "tempfile.TemporaryDirectory[str]"


def ask(repository: GitRepository, question: tuple[str, ...]) -> str:
    done = repository.run(*question)
    lines = sorted(done.stdout.decode("utf-8", "replace").splitlines())
    return f"{done.returncode}\n" + "\n".join(lines)


@functools.cache
def subject(kind: str) -> Subject:
    """A repository, made once, and what git answers while it is whole."""
    directory = tempfile.TemporaryDirectory(prefix=f"oracle-{kind}-")
    repository = GitRepository(Path(directory.name))
    repository.init()
    for _ in range(3):
        repository.commit(files=2)
    repository.git("tag", "--annotate", "v1", "--message", "tag")
    repository.stash()
    repository.stash()
    if kind == "packed":
        repository.git("pack-refs", "--all", "--prune")
        repository.git("update-index", "--index-version", "4")
        repository.git("-c", "pack.writeReverseIndex=true", "repack", "-adbq")
        repository.git("commit-graph", "write", "--reachable")
        repository.commit(files=2)
        repository.git("repack", "-dq")
        repository.git("multi-pack-index", "write")
    repository.promise("ready")
    names = tuple(name for name in repository.names() if not name.startswith(IGNORED))
    answers = {question: ask(repository, question) for question in QUESTIONS}
    return Subject(repository, names, answers, directory)


@st.composite
def damages(draw: st.DrawFn) -> tuple[str, str, bytes | None]:
    """(which repository, which file, its content after the damage)."""
    kind = draw(st.sampled_from(["loose", "packed"]))
    at = subject(kind)
    name = draw(st.sampled_from(at.names))
    content = at.repository.file(name)
    how = draw(st.sampled_from(["remove", "truncate", "zero", "zero-tail", "flip", "grow"]))
    if how == "remove":
        return kind, name, None
    if how == "grow":
        return kind, name, content + draw(st.sampled_from([b"\0", b"\0" * 512, b"x"]))
    position = draw(st.integers(0, max(len(content) - 1, 0)))
    if how == "truncate":
        return kind, name, content[:position]
    if how == "zero-tail":
        return kind, name, content[:position] + bytes(len(content) - position)
    if how == "zero":
        size = draw(st.sampled_from([1, 4, 16, 64, 512, 4096]))
        middle = bytes(len(content[position : position + size]))
        return kind, name, content[:position] + middle + content[position + size :]
    changed = bytearray(content)
    if changed:
        changed[position] ^= 1 << draw(st.integers(0, 7))
    return kind, name, bytes(changed)


def is_derived(name: str) -> bool:
    return name.startswith("objects/") and any(word in name for word in DERIVED)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(damages())
def test_what_the_oracle_passes_git_answers_rightly(damage: tuple[str, str, bytes | None]) -> None:
    kind, name, content = damage
    at = subject(kind)
    try:
        violations = at.repository.judge(at.repository.damaged({name: content}))
    except Inconclusive:
        assert name == "config"
        return
    if violations:
        return
    path = at.repository.root / GIT_DIR / name
    whole = path.read_bytes()
    path.chmod(0o644)
    try:
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)
        for question, answer in at.answers.items():
            assert ask(at.repository, question) == answer, question
        if not is_derived(name):
            fsck = at.repository.run("fsck", "--full", "--strict")
            assert fsck.returncode == 0, fsck.stderr
    finally:
        path.write_bytes(whole)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(damages(), min_size=2, max_size=6))
def test_damage_everywhere_is_judged(many: list[tuple[str, str, bytes | None]]) -> None:
    """Several damaged files at once: no error, and the same answer twice."""
    kind = many[0][0]
    at = subject(kind)
    changes = {name: content for where, name, content in many if where == kind}
    tree = at.repository.damaged(changes)
    try:
        assert at.repository.judge(tree) == at.repository.judge(tree)
    except Inconclusive:
        assert "config" in changes

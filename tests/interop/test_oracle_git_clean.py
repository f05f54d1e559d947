"""Repositories that real git made and nothing damaged: no violation, at any moment."""

from pathlib import Path

import pytest

from crashsim.oracles.git import GitOracle, encode_promise, snapshot
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.repository import open_repository
from crashsim.oracles.protocol import Moment
from tests.support.git_repository import GIT_DIR, GitRepository
from tests.support.host_tree import changed_tree, host_tree


@pytest.fixture(scope="module", params=["sha1", "sha256"])
def lived_in(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> GitRepository:
    """A repository that went through everything that changes how it is stored."""
    repository = GitRepository(tmp_path_factory.mktemp("lived-in"))
    repository.init(f"--object-format={request.param}")
    for _ in range(3):
        repository.commit()
    repository.git("tag", "--annotate", "v1", "--message", "tag")
    repository.promise("tag")
    repository.stash()
    repository.stash()
    repository.git("checkout", "--quiet", "-b", "other")
    repository.promise("checkout")
    steps = (
        ("pack-refs", "--all", "--prune"),
        ("update-index", "--index-version", "4"),
        ("repack", "-adbq"),
        ("-c", "core.splitIndex=true", "update-index", "--split-index"),
        ("rm", "--quiet", "--cached", "d1/f1"),
        ("multi-pack-index", "write", "--bitmap"),
        ("commit-graph", "write", "--reachable", "--changed-paths"),
        ("commit", "--quiet", "--all", "--message", "all"),
        ("commit-graph", "write", "--reachable", "--split"),
        ("-c", "index.skipHash=true", "update-index", "--no-split-index", "--force-write-index"),
        ("merge", "--quiet", "--no-ff", "--message", "merge", "v1~1"),
        ("checkout", "--quiet", "--detach"),
        ("stash", "drop", "--quiet"),
        ("branch", "-D", "main"),
        ("config", "remote.origin.url", "../x"),
        ("gc", "--quiet", "--prune=now"),
        ("reflog", "expire", "--expire=all", "--all"),
    )
    for step in steps:
        repository.git(*step)
        repository.promise(" ".join(step))
    return repository


def test_every_promised_state_is_clean(lived_in: GitRepository) -> None:
    for number, tree in enumerate(lived_in.trees, 1):
        assert lived_in.judge(tree, promises=number) == []


def test_the_end_of_the_step_under_way_is_clean(lived_in: GitRepository) -> None:
    for number, tree in enumerate(lived_in.trees[1:], 1):
        assert lived_in.judge(tree, promises=number) == []


def test_a_state_that_was_left_behind_is_not_clean(lived_in: GitRepository) -> None:
    """Whatever a step changes is noticed when it is lost."""
    semantic = 0
    for number, (before, after) in enumerate(zip(lived_in.trees, lived_in.trees[1:], strict=False)):
        found = {one.property.value for one in lived_in.judge(before, promises=number + 2)}
        if lived_in.judge(after, promises=number + 1) == [] and found:
            semantic += 1
            assert found <= {"durable"}
    assert semantic >= 15


def test_conflicts_and_intent_to_add(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path)
    repository.init()
    repository.commit()
    repository.git("checkout", "--quiet", "-b", "side")
    (repository.path / "d1/f1").write_text("side")
    repository.git("commit", "--quiet", "--all", "--message", "side")
    repository.git("checkout", "--quiet", "main")
    (repository.path / "d1/f1").write_text("main")
    repository.git("commit", "--quiet", "--all", "--message", "main")
    assert repository.run("merge", "side").returncode == 1
    (repository.path / "later").write_text("later")
    repository.git("add", "--intent-to-add", "later")
    repository.promise("conflict")
    assert repository.judge(repository.trees[-1]) == []


def test_shallow_clone_and_submodule_entry(tmp_path: Path) -> None:
    origin = GitRepository(tmp_path / "origin")
    origin.init()
    for _ in range(3):
        origin.commit()
    repository = GitRepository(tmp_path / "clone")
    repository.path.mkdir(parents=True)
    origin.git("clone", "--quiet", "--depth=2", f"file://{origin.path}", str(repository.path))
    repository.git("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},module")
    repository.git("commit", "--quiet", "--message", "submodule")
    repository.promise("clone")
    assert repository.judge(repository.trees[-1]) == []


def test_before_init_and_before_the_first_promise(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path)
    repository.promise("nothing")
    repository.init()
    repository.commit()
    nothing, initialised, _, committed = repository.trees
    assert repository.judge(nothing, promises=0) == []
    assert repository.judge(nothing, promises=1) == []
    assert repository.judge(initialised, promises=1) == []
    assert repository.judge(committed, promises=0) == []
    assert repository.rules(nothing, promises=2) == {"repository-lost"}
    half_made = changed_tree(initialised, {"repo/.git/HEAD": None, "repo/.git/config": b""})
    assert repository.judge(half_made, promises=1) == []
    assert repository.judge(half_made, promises=0) == []
    assert "repository-unrecognised" in repository.rules(half_made, promises=2)


def test_a_remote_beside_it(tmp_path: Path) -> None:
    """A push is promised for both repositories, and lost in either."""
    repository = GitRepository(tmp_path)
    repository.init()
    repository.git("init", "--quiet", "--bare", "../remote.git")
    commit = repository.commit()
    texts, trees = [], []
    for step in (("log",), ("push", "--quiet", "../remote.git", "main")):
        repository.git(*step)
        trees.append(host_tree(tmp_path))
        states = [snapshot(trees[-1], name) for name in (GIT_DIR, "remote.git")]
        texts.append(encode_promise(step[0], states[0], others={"remote.git": states[1]}))
    oracle = GitOracle(texts, others=["remote.git"])
    for made in (1, 2):
        assert oracle.judge(trees[1], Moment(tuple(texts[:made]))) == []
    (lost,) = oracle.judge(trees[0], Moment(tuple(texts)))
    assert (lost.rule, lost.subject) == ("ref-lost", "remote.git refs/heads/main")
    assert GitOracle(texts).judge(trees[0], Moment(tuple(texts))) == []
    path = f"remote.git/{repository.loose_path(commit)}"
    broken = oracle.judge(changed_tree(trees[1], {path: b""}), Moment(tuple(texts)))
    assert {(one.rule, one.subject) for one in broken} == {
        ("ref-object-empty", path),
        ("poisoned-object", path),
    }


def index_lines(repository: GitRepository) -> list[str]:
    """What `git ls-files --stage` prints, from our reader."""
    index = open_repository(host_tree(repository.root), GIT_DIR, ContentCache()).index
    assert index is not None
    entries = sorted(index.entries, key=lambda entry: (entry.path, entry.stage))
    return [
        f"{entry.mode:06o} {entry.oid.hex()} {entry.stage}\t{entry.path.decode()}"
        for entry in entries
    ]


INDEX_STEPS = (
    ("update-index", "--split-index"),
    ("rm", "--quiet", "--cached", "d1/f1"),
    ("update-index", "--chmod=+x", "d2/f2"),
    ("add", "."),
    ("update-index", "--index-version", "4", "--no-split-index"),
    ("update-index", "--index-version", "3"),
)


@pytest.mark.parametrize("form", ["sha1", "sha256"])
def test_index_as_git_reads_it(tmp_path: Path, form: str) -> None:
    repository = GitRepository(tmp_path)
    repository.init(f"--object-format={form}")
    repository.commit(files=9)
    for step in INDEX_STEPS:
        repository.git("-c", "splitIndex.maxPercentChange=100", *step)
        assert index_lines(repository) == repository.git("ls-files", "--stage").splitlines(), step

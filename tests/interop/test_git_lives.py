"""Many lives with this host's real git, without any crash: they go on for ever and stay small."""

import subprocess
from pathlib import Path

import pytest

from crashsim.machines.tree import Tree
from crashsim.oracles.git import GitOracle, encode_promise, snapshot
from crashsim.oracles.git.holding import promises_held
from crashsim.oracles.git.tidying import LOCK, Tidying, tidying
from crashsim.oracles.protocol import Moment
from crashsim.workloads.git import git_workload
from crashsim.workloads.git_steps import GitStep
from crashsim.workloads.lives import RENEWAL, kinds_of, life_steps, life_workload
from tests.support.git_repository import GIT_DIR, GitRepository, git_environment
from tests.support.host_tree import changed_tree, host_tree


def live(repository: GitRepository, number: int, stage: Path) -> None:
    """One life to its end; the steps' new files are put where a guest would have them."""
    steps = life_steps(kinds_of("default", 0, number), 0, number)
    staged = life_workload(git_workload(), "default", steps, 0, number).staged
    for step in steps:
        for path, content in staged.get(step.name, {}).items():
            target = stage / str(number) / step.name / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        take(repository, step, stage / str(number) / step.name)


def take(repository: GitRepository, step: GitStep, stage: Path) -> None:
    done = subprocess.run(
        ["sh", "-ec", step.script],
        cwd=repository.path,
        env={**git_environment(repository.root), "STAGE": str(stage)},
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, f"{step.name}: {done.stderr.decode()}"


def size_bytes(repository: GitRepository) -> int:
    return sum(path.stat().st_size for path in (repository.path / ".git").rglob("*"))


def test_lives_go_on_and_stay_small(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path / "root")
    repository.init()
    repository.commit()
    sizes = []
    for number in range(1, 4 * RENEWAL + 1):
        live(repository, number, tmp_path / "stage")
        sizes.append(size_bytes(repository))
        text = encode_promise("life", snapshot(host_tree(repository.root), GIT_DIR))
        assert len(text) < 30_000

    assert max(sizes) < 2 << 20
    assert max(sizes[RENEWAL - 1 :: RENEWAL]) < 512 << 10, "what is left when history begins anew"
    assert len(repository.git("for-each-ref").splitlines()) < 30
    assert repository.git("fsck", "--strict", "--no-dangling") == ""


@pytest.fixture(scope="module")
def promised(tmp_path_factory: pytest.TempPathFactory) -> GitRepository:
    """Three commits, each with a promise after add and after commit."""
    repository = GitRepository(tmp_path_factory.mktemp("promised"))
    repository.init()
    for _ in range(3):
        repository.commit()
    return repository


def test_promises_held_are_those_that_nothing_is_older_than(promised: GitRepository) -> None:
    texts, trees = promised.texts, promised.trees
    made = len(texts)
    for place, tree in enumerate(trees, 1):
        assert promises_held(tree, GIT_DIR, texts, made) == place


def test_the_oldest_part_decides_how_many_promises_hold(promised: GitRepository) -> None:
    texts, trees = promised.texts, promised.trees
    index = f"{GIT_DIR}/index"
    mixed = changed_tree(trees[-1], {index: trees[2].read(index)})
    # The index changes with each add, which is every other promise.
    assert promises_held(mixed, GIT_DIR, texts, len(texts)) == 3


def test_no_promise_is_held_by_a_broken_repository(promised: GitRepository) -> None:
    tree = promised.trees[-1]
    reachable = promised.git("rev-parse", "HEAD^{tree}")
    path = f"{GIT_DIR}/objects/{reachable[:2]}/{reachable[2:]}"
    broken = changed_tree(tree, {path: b""})
    assert promises_held(broken, GIT_DIR, promised.texts, len(promised.texts)) == 0


def test_the_end_of_the_step_under_way_is_no_loss(promised: GitRepository) -> None:
    texts = promised.texts
    assert promises_held(promised.trees[-1], GIT_DIR, texts, len(texts) - 1) == len(texts) - 1


def tidied(tree: Tree, what: Tidying) -> Tree:
    files: dict[str, bytes | None] = dict.fromkeys(what.removed)
    return changed_tree(tree, {**files, **what.rewritten})


def is_clean(tree: Tree) -> bool:
    promise = encode_promise("now", snapshot(tree, GIT_DIR))
    return not GitOracle([promise]).judge(tree, Moment((promise,)))


def test_a_sound_repository_needs_no_tidying(promised: GitRepository) -> None:
    assert tidying(promised.trees[-1], GIT_DIR, mend=True) == Tidying()


def test_locks_alone_are_removed_where_nothing_is_to_be_mended(promised: GitRepository) -> None:
    left = {f"{GIT_DIR}/{name}": b"" for name in ("index.lock", "refs/heads/x.lock", "gc.pid")}
    others: dict[str, bytes | None] = {f"{GIT_DIR}/packed-refs.new": b"", "repo/my.lock": b""}
    tree = changed_tree(promised.trees[-1], {**left, **others})

    found = tidying(tree, GIT_DIR, mend=False)

    assert found.removed == dict.fromkeys(left, LOCK)


def test_what_was_told_as_unusable_is_mended(promised: GitRepository) -> None:
    log = f"{GIT_DIR}/logs/HEAD"
    whole = promised.trees[-1].read(log)
    assert whole is not None
    lines = whole.splitlines(keepends=True)
    cut = b"".join(lines[:-1]) + bytes(len(lines[-1]))
    tree = changed_tree(
        promised.trees[-1],
        {
            log: cut,
            f"{GIT_DIR}/packed-refs.new": b"# pack-refs",
            f"{GIT_DIR}/ORIG_HEAD": b"",
            f"{GIT_DIR}/objects/12/{'3' * 38}": b"",
        },
    )

    found = tidying(tree, GIT_DIR, mend=True)

    assert found.reasons == [
        "packed-refs-new-left",
        "poisoned-object",
        "pseudoref-broken",
        "reflog cut",
    ]
    assert found.rewritten == {log: b"".join(lines[:-1])}
    assert is_clean(tidied(tree, found))

"""Going on with damaged repositories, by the real git of this host in a guest's place."""

from pathlib import Path

import pytest

from crashsim.machines.protocol import CommandResult
from crashsim.oracles.git import GitOracle, cross_check
from crashsim.oracles.protocol import Moment
from tests.support.git_repository import GIT_DIR, GitRepository, run_on_host
from tests.support.scripted_guest import ScriptedGuest


@pytest.fixture
def repository(tmp_path: Path) -> GitRepository:
    """Two commits, a stash entry, and everything loose."""
    made = GitRepository(tmp_path)
    made.init()
    made.commit()
    made.commit()
    made.stash()
    return made


def guest(repository: GitRepository) -> ScriptedGuest:
    def behave(_: ScriptedGuest, argv: object, __: object) -> CommandResult:
        assert isinstance(argv, list)
        return run_on_host(argv, repository.root)

    return ScriptedGuest(behave=behave)


def exercise(repository: GitRepository) -> dict[str, str]:
    """Rule -> detail of what the exercise finds in the repository as it is on disk."""
    tree, moment = repository.trees[-1], Moment(tuple(repository.texts))
    oracle = GitOracle(repository.texts, exercise_every=1)
    assert oracle.exercise_key(tree, moment) is not None
    found = oracle.exercise(guest(repository), str(repository.root), tree, moment)
    return {one.rule: one.detail for one in found}


def damage(repository: GitRepository, name: str, content: bytes | None) -> None:
    """Change a file on disk, and let the last tree show it."""
    repository.trees[-1] = repository.damaged({name: content})
    path = repository.root / GIT_DIR / name
    path.parent.mkdir(exist_ok=True, parents=True)
    if path.exists():
        path.chmod(0o644)
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


def test_whole_repository(repository: GitRepository) -> None:
    assert exercise(repository) == {}
    assert repository.git("log", "-1", "--format=%s") == "crashsim-exercise"


@pytest.mark.parametrize("name", ["index.lock", "HEAD.lock", "refs/heads/main.lock", "gc.pid"])
def test_locks_are_removed_first(repository: GitRepository, name: str) -> None:
    damage(repository, name, b"")
    assert exercise(repository) == {}


def test_poisoned_object_stays_bad(repository: GitRepository) -> None:
    """The file of the worktree has the content, and git does not write it again."""
    damage(repository, repository.loose_path(repository.git("rev-parse", "HEAD:d1/f1")), b"")
    assert "added-object-unreadable" in exercise(repository)


def test_missing_object_is_written_again(repository: GitRepository) -> None:
    damage(repository, repository.loose_path(repository.git("rev-parse", "HEAD:d1/f1")), None)
    assert exercise(repository) == {}


def test_broken_index(repository: GitRepository) -> None:
    damage(repository, "index", b"")
    assert "index file smaller than expected" in exercise(repository)["add-failed"]


def test_broken_head(repository: GitRepository) -> None:
    damage(repository, "HEAD", bytes(21))
    found = exercise(repository)
    assert {"add-failed", "commit-failed"} <= set(found)
    assert "not a git repository" in found["add-failed"]


def test_broken_branch(repository: GitRepository) -> None:
    damage(repository, "refs/heads/main", bytes(41))
    assert "commit-failed" in exercise(repository)


def test_packed_refs_new_stops_packing(repository: GitRepository) -> None:
    damage(repository, "packed-refs.new", b"")
    assert "packed-refs.new: File exists" in exercise(repository)["pack-refs-failed"]


def test_bad_loose_copy_of_a_packed_object_goes_away(repository: GitRepository) -> None:
    path = repository.loose_path(repository.git("rev-parse", "HEAD"))
    repository.git("repack", "-adq")
    repository.promise("repack")
    damage(repository, path, b"")
    assert not cross_check(guest(repository), str(repository.root)).is_clean
    assert exercise(repository) == {}
    assert cross_check(guest(repository), str(repository.root)).is_clean


def test_the_next_entry_of_a_cut_off_reflog_is_lost(repository: GitRepository) -> None:
    """What the rule `reflog-cut-off` says of git."""
    log = repository.file("logs/HEAD")
    before = len(repository.git("reflog").splitlines())
    damage(repository, "logs/HEAD", log + bytes(50))
    repository.git("commit", "--quiet", "--allow-empty", "--message", "next")
    assert len(repository.git("reflog").splitlines()) == before
    assert cross_check(guest(repository), str(repository.root)).is_clean


def test_cross_check_agrees(repository: GitRepository) -> None:
    clean = cross_check(guest(repository), str(repository.root))
    assert clean.is_clean
    assert clean.agrees_with(repository.judge(repository.trees[-1]))
    damage(repository, repository.loose_path(repository.git("rev-parse", "HEAD^{tree}")), b"")
    report = cross_check(guest(repository), str(repository.root))
    assert any("is empty" in line for line in report.complaints)
    assert report.agrees_with(repository.judge(repository.trees[-1]))


def test_what_is_exercised(repository: GitRepository) -> None:
    tree, moment = repository.trees[-1], Moment(tuple(repository.texts))
    assert GitOracle(repository.texts, exercise_every=0).exercise_key(tree, moment) is None
    assert GitOracle(repository.texts, exercise_every=1).exercise_key(tree, Moment(())) is None
    some = GitOracle(repository.texts, exercise_every=2)
    for each in repository.trees:
        key = some.exercise_key(each, moment)
        judged = tuple(some.judge(each, moment))
        assert key == (None if each.identity % 2 else (each.identity, judged))

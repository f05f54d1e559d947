"""What a judgement costs: it is made for every distinct recovered tree."""

import time
from pathlib import Path

from crashsim.oracles.git import GitOracle
from crashsim.oracles.protocol import Moment
from tests.support.git_repository import GIT_DIR, GitRepository

NEW_MS, SEEN_MS = 30, 5


def milliseconds(oracle: GitOracle, repository: GitRepository) -> float:
    """Processor time, since other tests run at the same time."""
    started = time.process_time()
    assert oracle.judge(repository.trees[-1], Moment(tuple(repository.texts))) == []
    return (time.process_time() - started) * 1000


def test_a_repository_of_a_hundred_files(tmp_path: Path) -> None:
    repository = GitRepository(tmp_path)
    repository.init()
    for _ in range(10):
        repository.commit(files=10)
    loose = [GitOracle(repository.texts, GIT_DIR) for _ in range(5)]
    assert min(milliseconds(oracle, repository) for oracle in loose) <= NEW_MS
    assert min(milliseconds(oracle, repository) for oracle in loose) <= SEEN_MS
    repository.git("repack", "-adq")
    repository.promise("repack")
    packed = [GitOracle(repository.texts, GIT_DIR) for _ in range(5)]
    assert min(milliseconds(oracle, repository) for oracle in packed) <= NEW_MS
    assert min(milliseconds(oracle, repository) for oracle in packed) <= SEEN_MS

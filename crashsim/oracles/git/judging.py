"""Judges one repository of a recovered tree."""

from crashsim.machines.tree import Tree
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.history import Expectation, Unreadable, compare
from crashsim.oracles.git.reachability import check_reachable
from crashsim.oracles.git.repository import Repository, exists, open_repository
from crashsim.oracles.git.roots import roots
from crashsim.oracles.git.rules import violation
from crashsim.oracles.git.snapshot import plain, take_snapshot
from crashsim.oracles.protocol import Violation


def judge_repository(
    tree: Tree, git_dir: str, expected: Expectation | None, cache: ContentCache
) -> list[Violation]:
    """Every violation of the repository at `git_dir`.

    :param expected: what was promised; None before the first promise.
    Raises Inconclusive and ContentNotCollected.
    """
    if not exists(tree, git_dir):
        if expected is None or not all(state.exists for state in expected.legal):
            return []
        return [violation("repository-lost", git_dir, f"{git_dir} was promised and is not there")]
    promised = expected.promised if expected is not None else None
    form = promised.format() if promised is not None and promised.exists else None
    repository = open_repository(tree, git_dir, cache, form)
    found = [*repository.violations, *_check_objects(repository)]
    if expected is None or not expected.promised.exists:
        return [one for one in found if _holds_without_promise(one)]
    return [*found, *compare(take_snapshot(repository), _unreadable(repository), expected)]


def _holds_without_promise(found: Violation) -> bool:
    """Before the first promise `git init` may be under way: only objects can be judged."""
    return "object" in found.rule or found.rule.startswith("pack-")


def _unreadable(repository: Repository) -> Unreadable:
    return Unreadable(
        refs=frozenset(map(plain, repository.refs.broken)),
        all_refs=not repository.refs.is_readable,
        index=repository.has_index and repository.index is None,
        config=repository.config is None,
    )


def _check_objects(repository: Repository) -> list[Violation]:
    store = repository.store
    broken = check_reachable(roots(repository), store, repository.shallow)
    poison = [
        violation("poisoned-object", path, f"{path} {damage.reason}: writing it again is skipped")
        for path, damage in store.poisoned()
    ]
    return [*broken, *poison]

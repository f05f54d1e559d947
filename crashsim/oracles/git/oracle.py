"""The git oracle: the five properties of one repository, judged in this process."""

from collections.abc import Sequence

from crashsim.errors import UsageError
from crashsim.machines.protocol import Guest
from crashsim.machines.tree import Tree
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.history import Unreadable, compare, expect
from crashsim.oracles.git.reachability import check_reachable
from crashsim.oracles.git.repository import Repository, exists, open_repository
from crashsim.oracles.git.roots import roots
from crashsim.oracles.git.rules import violation
from crashsim.oracles.git.snapshot import decode_promise, take_snapshot
from crashsim.oracles.protocol import Moment, Property, Violation


class HistoryMismatch(UsageError):
    """A moment's promises are not the beginning of the history that the oracle was given."""


class GitOracle:
    """Judges one git repository against the promises of its whole recording.

    Policy for what a crash leaves lying around: `*.lock` files, `gc.pid` and `packed-refs.new` are
    tolerated, since git tells the user to remove them; `tmp_obj_*`, `tmp_pack_*`, `tmp_idx_*`,
    `tmp_objdir-*` and `.tmp-*` are ignored, as git does until it prunes them. A pack without its
    index is invisible and ignored, and so is an index without its pack; the objects in them count
    as missing where something needs them. Reflog entries are held to *intact* like refs, under
    rules of their own, since they are what `git gc` keeps objects for.
    """

    properties: Sequence[Property] = tuple(Property)

    def __init__(
        self, history: Sequence[str], git_dir: str = "repo/.git", worktree: str = "repo"
    ) -> None:
        """Take what is known of the recording.

        :param history: texts of all marks of the recording, oldest first; marks that are no git
            promises are skipped.
        :param git_dir: path of the git directory in the recovered tree.
        :param worktree: path of its worktree.
        """
        self._promises = [
            promise for text in history if (promise := decode_promise(text)) is not None
        ]
        self._git_dir = git_dir.strip("/")
        self._worktree = worktree.strip("/")
        self._cache = ContentCache()

    def judge(self, tree: Tree, moment: Moment) -> list[Violation]:
        """Every violation that the collected tree shows. Pure: only its cache changes.

        Raises Inconclusive for kinds of repositories that it cannot judge (partial clones),
        ContentNotCollected when the tree lacks contents, HistoryMismatch.
        """
        expected = expect(self._promises, self._count_promises(moment))
        if not exists(tree, self._git_dir):
            if expected is None or not all(state.exists for state in expected.legal):
                return []
            detail = f"{self._git_dir} was promised and is not there"
            return [violation("repository-lost", self._git_dir, detail)]
        promised = expected.promised if expected is not None else None
        repository = open_repository(
            tree,
            self._git_dir,
            self._cache,
            promised.format() if promised is not None and promised.exists else None,
        )
        found = [*repository.violations, *_check_objects(repository)]
        if expected is None or not expected.promised.exists:
            return [one for one in found if _holds_without_promise(one)]
        return [*found, *compare(take_snapshot(repository), _unreadable(repository), expected)]

    def exercise_key(self, tree: Tree, moment: Moment) -> object | None:
        """What `exercise` depends on: the whole tree, and nothing of the moment."""
        return tree.identity if exists(tree, self._git_dir) else None

    def exercise(self, guest: Guest, root: str, tree: Tree, moment: Moment) -> list[Violation]:
        """Not written yet: nothing is decided in the guest."""
        return []

    def _count_promises(self, moment: Moment) -> int:
        made = [
            promise for text in moment.promises if (promise := decode_promise(text)) is not None
        ]
        if made != self._promises[: len(made)]:
            raise HistoryMismatch(
                "the promises before the cut are not the beginning of the recording's promises: "
                "give the oracle all marks of the recording that is explored"
            )
        return len(made)


def _holds_without_promise(found: Violation) -> bool:
    """Before the first promise `git init` may be under way: only objects can be judged."""
    return "object" in found.rule or found.rule.startswith("pack-")


def _unreadable(repository: Repository) -> Unreadable:
    return Unreadable(
        head=repository.refs.head is None,
        refs=repository.refs.broken,
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

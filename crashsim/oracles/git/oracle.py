"""The git oracle: the five properties of one repository, judged in this process."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from crashsim.errors import UsageError
from crashsim.machines.protocol import Guest
from crashsim.machines.tree import Tree
from crashsim.oracles.git.cache import ContentCache
from crashsim.oracles.git.exercise import run_exercise
from crashsim.oracles.git.fsck import FSCK, cross_check
from crashsim.oracles.git.history import expect
from crashsim.oracles.git.judging import judge_repository
from crashsim.oracles.git.repository import exists, open_repository
from crashsim.oracles.git.snapshot import decode_promise, is_promise
from crashsim.oracles.protocol import Inconclusive, Moment, Property, Violation


class HistoryMismatch(UsageError):
    """A moment's promises are not the beginning of the history that the oracle was given."""


class GitOracle:
    """Judges one git repository against the promises of its whole recording.

    Policy for what a crash leaves lying around: `*.lock` files and `gc.pid` are tolerated, since
    git names them and tells the user to remove them; `tmp_obj_*`, `tmp_pack_*`, `tmp_idx_*`,
    `tmp_objdir-*` and `.tmp-*` are ignored, as git does until it prunes them. `packed-refs.new` is
    a violation of *usable*: git fails because of it and does not say what to do. A pack without its
    index is invisible and ignored, and so is an index without its pack; the objects in them count
    as missing where something needs them. Reflog entries are held to *intact* like refs, under
    rules of their own, since they are what `git gc` keeps objects for.
    """

    properties: Sequence[Property] = tuple(Property)

    def __init__(
        self,
        history: Sequence[str],
        git_dir: str = "repo/.git",
        worktree: str = "repo",
        others: Sequence[str] = (),
        exercise_every: int = 32,
    ) -> None:
        """Take what is known of the recording.

        :param history: texts of all marks of the recording, oldest first; marks that are no git
            promises are skipped.
        :param git_dir: path of the git directory in the recovered tree.
        :param worktree: path of its worktree.
        :param others: git directories of further repositories that promises may tell of.
        :param exercise_every: real git goes on with one recovered tree in so many, chosen by the
            tree's hash so that a repeated run chooses the same; 1 for all, 0 for none.
        """
        self._texts = [text for text in history if is_promise(text)]
        self._promises = [decode_promise(text) for text in self._texts]
        self._git_dir = git_dir.strip("/")
        self._worktree = worktree.strip("/")
        self._others = [other.strip("/") for other in others]
        self._exercise_every = exercise_every
        self._cache = ContentCache()

    def judge(self, tree: Tree, moment: Moment) -> list[Violation]:
        """Every violation that the collected tree shows. Pure: only its cache changes.

        Raises Inconclusive for kinds of repositories that it cannot judge (partial clones),
        ContentNotCollected when the tree lacks contents, HistoryMismatch.
        """
        made = self._count_promises(moment)
        found = judge_repository(tree, self._git_dir, expect(self._promises, made), self._cache)
        for other in self._others:
            promises = [promise.of(other) for promise in self._promises]
            told = [promise for promise in promises if promise is not None]
            told_before = sum(promise is not None for promise in promises[:made])
            expected = expect(told, told_before)
            found += [
                one
                if one.subject.startswith(other)
                else replace(one, subject=f"{other} {one.subject}")
                for one in judge_repository(tree, other, expected, self._cache)
            ]
        return found

    def exercise_key(self, tree: Tree, moment: Moment) -> object | None:
        """What `exercise` depends on: the tree, and what `judge` says of it; None: not exercised.

        What was judged depends on the promises, so equal trees under other promises may differ.
        """
        expected = expect(self._promises, self._count_promises(moment))
        if expected is None or not expected.promised.exists or not exists(tree, self._git_dir):
            return None
        identity = tree.identity
        if self._exercise_every == 0 or identity % self._exercise_every:
            return None
        return identity, tuple(self.judge(tree, moment))

    def exercise(self, guest: Guest, root: str, tree: Tree, moment: Moment) -> list[Violation]:
        """Go on working with real git; see exercise.py. Raises Inconclusive."""
        return run_exercise(
            guest,
            root.rstrip("/"),
            self._git_dir,
            self._worktree,
            self.judge(tree, moment),
            open_repository(tree, self._git_dir, self._cache).refs.refs,
        )

    def second_opinion(self, guest: Guest, root: str) -> Mapping[str, str]:
        """What `git fsck` says of the repository."""
        try:
            report = cross_check(guest, root, self._git_dir)
        except Inconclusive as error:
            return {"git-fsck": str(error)}
        lines = (f"{FSCK}: exit code {report.returncode}", *report.complaints)
        return {"git-fsck": "\n".join(lines)}

    def _count_promises(self, moment: Moment) -> int:
        made = [text for text in moment.promises if is_promise(text)]
        if made != self._texts[: len(made)]:
            raise HistoryMismatch(
                "the promises before the cut are not the beginning of the recording's promises: "
                "give the oracle all marks of the recording that is explored"
            )
        return len(made)

"""Deciding one crash state: by a real recovery and check, unless a pruning knows the answer.

Three prunings, each on its own switch, each with the argument for why it is sound:

*same image*: two states of equal page contents are one disk; whatever is true of one is true of
    the other. Costs the difference between the state and the prefix at its cut.
*same reads*: see `read_tree`. Only pages that can differ between two states of the exploration are
    compared: the others hold the same in all of them.
*same tree*: an oracle is a function of the recovered tree and the promises, so one verdict
    serves all states that recover to this tree under these promises. What it tries out in the
    guest is a function of what `Oracle.exercise_key` names.

All three give the *outcome* of recovery (a tree, or none) and then judge it under the state's own
promises, which is done in this process; where that also needs programs to run in a guest
and nobody has run them yet under that key, the state is checked after all.
"""

import threading
import time
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from crashsim.disk.state import CrashState
from crashsim.errors import InfrastructureError
from crashsim.explore.read_tree import ReadTree
from crashsim.explore.recovery import Attempt, GuestLost, Recoverer
from crashsim.explore.timeline import Int64s, Timeline
from crashsim.explore.verdict import PRUNINGS, DecidedBy, Outcome, Verdict
from crashsim.machines.protocol import Recovery
from crashsim.oracles.protocol import Blame, Inconclusive, Moment, Oracle, Property, Violation

CHECK = DecidedBy.CHECK
SAME_IMAGE, SAME_READS, SAME_TREE = (
    DecidedBy.SAME_IMAGE,
    DecidedBy.SAME_READS,
    DecidedBy.SAME_TREE,
)


class Images(Protocol):
    """The disk images of crash states (`crashsim.disk.image.ImageIndex`)."""

    def identity(self, state: CrashState) -> int:
        """Equal for states of equal page contents, and only for those."""

    def page_digest(self, state: CrashState, page: int) -> int:
        """128 bits that stand for the content of one page of the state's image."""


Exercised = tuple[tuple[Violation, ...], str]
"""What the exercise found, and why it was inconclusive (empty if it was not)."""


@dataclass(eq=False)
class Decider:
    """What was learnt about a log's crash states, shared by all workers.

    :ivar prunings: which prunings to use; the empty set makes every decision a real one.
    :ivar seconds: phase -> seconds spent in it, summed over all workers.
    :ivar distinct: the identities of all images that were asked about.
    """

    images: Images
    timeline: Timeline
    oracle: Oracle
    prunings: frozenset[DecidedBy] = PRUNINGS
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    distinct: set[int] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _by_image: dict[int, Outcome] = field(default_factory=dict)
    _by_reads: ReadTree[Outcome] = field(default_factory=ReadTree)
    _by_tree: dict[Hashable, Outcome] = field(default_factory=dict)
    _exercised: dict[Hashable, Exercised] = field(default_factory=dict)

    def decide(self, state: CrashState, recoverer: Recoverer) -> Verdict:
        """The verdict on one legal crash state.

        Raises InfrastructureError when guests die on sound disks, too.
        """
        with self._timed("lookup"):
            verdict = self.known(state)
        return self._check_surely(state, recoverer) if verdict is None else verdict

    def known(self, state: CrashState) -> Verdict | None:
        """The verdict, if it follows from what was decided before."""
        identity = self.images.identity(state)
        with self._lock:
            self.distinct.add(identity)
            outcome, decided_by = self._outcome(state, identity)
        if outcome is None:
            return None
        verdict = self._judge(outcome, state, None)
        if verdict is None:
            return None
        return Verdict(verdict.violations, decided_by, verdict.inconclusive)

    def moment(self, state: CrashState) -> Moment:
        """What had been promised when the power was cut."""
        return Moment(tuple(self.timeline.promises[: self.timeline.promise_count(state.cut)]))

    def _outcome(self, state: CrashState, identity: int) -> tuple[Outcome | None, DecidedBy]:
        if SAME_IMAGE in self.prunings:
            outcome = self._by_image.get(identity)
            if outcome is not None:
                return outcome, SAME_IMAGE
        if SAME_READS in self.prunings:
            outcome = self._by_reads.find(_page_digests(self.images, state))
            if outcome is not None:
                self._by_image.setdefault(identity, outcome)
                return outcome, SAME_READS
        return None, CHECK

    def _judge(
        self, outcome: Outcome, state: CrashState, attempt: Attempt | None
    ) -> Verdict | None:
        """The verdict on an outcome; None where it takes a guest and there is no attempt."""
        promises = self.timeline.promise_count(state.cut)
        known = outcome.verdicts.get(promises)
        if known is None:
            known = self._judge_anew(outcome, self.moment(state), attempt)
            if known is not None:
                outcome.verdicts[promises] = known
        return known

    def _judge_anew(
        self, outcome: Outcome, moment: Moment, attempt: Attempt | None
    ) -> Verdict | None:
        if outcome.tree is None:
            assert outcome.failure is not None
            return Verdict((outcome.failure,))
        try:
            with self._timed("judge"):
                violations = tuple(self.oracle.judge(outcome.tree, moment))
                key = self.oracle.exercise_key(outcome.tree, moment)
        except Inconclusive as reason:
            return Verdict((), CHECK, _why(reason))
        if key is None:
            return Verdict(violations)
        exercised = self._exercised.get(key)
        if exercised is None:
            if attempt is None:
                return None
            with self._timed("exercise"):
                exercised = self._exercise(attempt, outcome, moment)
            if SAME_TREE in self.prunings:
                self._exercised[key] = exercised
        return Verdict(violations + exercised[0], CHECK, exercised[1])

    def _exercise(self, attempt: Attempt, outcome: Outcome, moment: Moment) -> Exercised:
        assert outcome.tree is not None
        try:
            return tuple(attempt.exercise(self.oracle, outcome.tree, moment)), ""
        except Inconclusive as reason:
            return (), _why(reason)

    def _check_surely(self, state: CrashState, recoverer: Recoverer) -> Verdict:
        """Check, and once more in a fresh guest if the first one went away.

        A guest that dies twice says something about this disk only if a guest lives through a
        sound one: that is tried with the disk as exploring began, synced and whole. Then a kernel
        that said itself that it panicked, both times, has failed to recover a disk that a power
        cut may leave: a violation of the filesystem's. Anything else (a hang, a process that is
        gone) may as well be our own failure: no verdict.
        """
        losses: list[GuestLost] = []
        while len(losses) < 2:
            try:
                return self._check(state, recoverer)
            except GuestLost as loss:
                losses.append(loss)
        self._recover_sound_disk(recoverer, losses[-1])
        reason = str(losses[-1])
        if not all(loss.panicked for loss in losses):
            return Verdict((), CHECK, f"the guest was lost twice on this state: {reason}")
        failure = Violation(
            Property.RECOVERABLE,
            "kernel-panic",
            "",
            f"the kernel panicked on this disk, twice, each time in a fresh guest: {reason}",
            Blame.FILESYSTEM,
        )
        return self._judge(Outcome(None, failure), state, None) or Verdict((failure,))

    def _recover_sound_disk(self, recoverer: Recoverer, loss: GuestLost) -> None:
        try:
            with recoverer.recover(CrashState(self.timeline.start)):
                pass
        except GuestLost as again:
            raise InfrastructureError(
                f"guests do not even survive the disk that exploring starts from: {again}"
            ) from loss

    def _check(self, state: CrashState, recoverer: Recoverer) -> Verdict:
        started = time.perf_counter()
        with recoverer.recover(state) as attempt:
            self._spent("recover", time.perf_counter() - started)
            outcome = self._recovered(attempt.recovery)
            decided_by = CHECK
            if self.timeline.promise_count(state.cut) in outcome.verdicts:
                decided_by = SAME_TREE
            reads = attempt.pages_read()
            verdict = self._judge(outcome, state, attempt)
            if SAME_TREE not in self.prunings:
                # The verdict then stands on what the exercise read, too.
                reads = attempt.pages_read()
            started = time.perf_counter()
        self._spent("unmount", time.perf_counter() - started)
        assert verdict is not None
        self._learn(state, reads, outcome)
        return Verdict(verdict.violations, decided_by, verdict.inconclusive)

    def _recovered(self, recovery: Recovery) -> Outcome:
        """The outcome that a recovery came to: the known one, where the tree is a known one."""
        if recovery.tree is not None:
            key: Hashable = recovery.tree.identity
            outcome = Outcome(recovery.tree)
        else:
            key = recovery.mount_error
            outcome = Outcome(None, does_not_mount(recovery))
        if SAME_TREE not in self.prunings:
            return outcome
        with self._lock:
            return self._by_tree.setdefault(key, outcome)

    def _learn(self, state: CrashState, reads: Int64s, outcome: Outcome) -> None:
        with self._lock:
            if SAME_IMAGE in self.prunings:
                self._by_image[self.images.identity(state)] = outcome
            if SAME_READS in self.prunings:
                digest = _page_digests(self.images, state)
                pages = self.timeline.pages_that_differ(reads)
                self._by_reads.add({page: digest(page) for page in pages}, outcome)

    @contextmanager
    def _timed(self, phase: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self._spent(phase, time.perf_counter() - started)

    def _spent(self, phase: str, seconds: float) -> None:
        with self._lock:
            self.seconds[phase] += seconds


def _page_digests(images: Images, state: CrashState) -> Callable[[int], int]:
    """Digests of one state's pages, each computed once."""
    known: dict[int, int] = {}

    def digest(page: int) -> int:
        content = known.get(page)
        if content is None:
            content = known[page] = images.page_digest(state, page)
        return content

    return digest


def _why(reason: Inconclusive) -> str:
    return str(reason) or "the check gave no answer"


def does_not_mount(recovery: Recovery) -> Violation:
    """What a recovery without a tree violates."""
    return Violation(
        Property.RECOVERABLE,
        "does-not-mount",
        "",
        f"the filesystem does not mount ({recovery.mount_error or 'no errno was given'})",
        Blame.FILESYSTEM,
    )

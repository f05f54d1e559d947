"""Deciding many crash states side by side.

An engine takes a sequence of states and gives their verdicts in any order, each with its place in
the sequence. Everything that a user sees is put together from verdicts by place, so it does not
depend on how many workers there were or which was the fastest (only the split of `decided_by` among
the prunings does: a state can be pruned only by what was decided before it). Another engine, on
other machines, has to offer `decide_all` and nothing else.
"""

import queue
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from crashsim.disk.state import CrashState
from crashsim.explore.deciding import Decider
from crashsim.explore.recovery import Recoverer, RecovererAborted
from crashsim.explore.verdict import Verdict

GRACE_SECONDS = 15.0
"""How long after the time limit a check that is going on may take to end."""

Decided = tuple[int, CrashState, Verdict]
"""(place in the sequence, state, verdict)."""


class Engine(Protocol):
    """Something that decides crash states."""

    def decide_all(
        self, states: Iterable[CrashState], time_limit_seconds: float | None
    ) -> Generator[Decided, None, None]:
        """The verdicts on `states`, as they become known.

        Stops early when the time is over. Raises InfrastructureError when machines fail. Whatever
        ends it, closing the generator included, every guest is gone afterwards.
        """


@dataclass(eq=False)
class LocalEngine:
    """Worker threads, each with a guest and a crash disk of its own.

    :ivar recoverers: makes one worker's recoverer; should start the guest at first use only.
    :ivar jobs: how many workers.
    """

    decider: Decider
    recoverers: Callable[[], Recoverer]
    jobs: int = 1

    def decide_all(
        self, states: Iterable[CrashState], time_limit_seconds: float | None
    ) -> Generator[Decided, None, None]:
        """See Engine."""
        crew = _Crew(self.decider, enumerate(states))
        deadline = None if time_limit_seconds is None else time.monotonic() + time_limit_seconds
        with ThreadPoolExecutor(self.jobs, thread_name_prefix="explore") as pool:
            try:
                for _ in range(self.jobs):
                    crew.hire(pool, self.recoverers)
                yield from crew.results(deadline)
            finally:
                crew.dismiss()


@dataclass(eq=False)
class _Crew:
    """The workers of one `decide_all`, and what they share."""

    decider: Decider
    tasks: Iterator[tuple[int, CrashState]]
    lock: threading.Lock = field(default_factory=threading.Lock)
    stopped: threading.Event = field(default_factory=threading.Event)
    inbox: "queue.SimpleQueue[Decided | Future[None]]" = field(default_factory=queue.SimpleQueue)
    recoverers: list[Recoverer] = field(default_factory=list)
    working: int = 0

    def hire(self, pool: ThreadPoolExecutor, recoverers: Callable[[], Recoverer]) -> None:
        recoverer = recoverers()
        self.recoverers.append(recoverer)
        self.working += 1
        pool.submit(self._work, recoverer).add_done_callback(self.inbox.put)

    def _work(self, recoverer: Recoverer) -> None:
        with recoverer:
            while (task := self._next_task()) is not None:
                place, state = task
                self.inbox.put((place, state, self.decider.decide(state, recoverer)))

    def _next_task(self) -> tuple[int, CrashState] | None:
        with self.lock:
            return None if self.stopped.is_set() else next(self.tasks, None)

    def results(self, deadline: float | None) -> Iterator[Decided]:
        """Everything that the workers decide, until they have nothing left to do."""
        while self.working:
            try:
                item = self.inbox.get(timeout=_seconds_until(deadline))
            except queue.Empty:
                deadline = self._time_over()
                continue
            if isinstance(item, Future):
                self.working -= 1
                self._raise_failure(item)
            else:
                yield item

    def _time_over(self) -> float | None:
        """Let the checks that are going on end, then end them; the deadline for that."""
        if self.stopped.is_set():
            self.dismiss()
            return None
        self.stopped.set()
        return time.monotonic() + GRACE_SECONDS

    def _raise_failure(self, worker: Future[None]) -> None:
        failure = worker.exception()
        if failure is not None and not (
            self.stopped.is_set() and isinstance(failure, RecovererAborted)
        ):
            raise failure

    def dismiss(self) -> None:
        """End everything, whatever is going on."""
        self.stopped.set()
        for recoverer in self.recoverers:
            recoverer.abort()


def _seconds_until(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())

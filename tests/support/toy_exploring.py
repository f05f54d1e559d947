"""The toy store's oracle and recoverer, and one call that explores a recording of it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from crashsim.disk.crash_disk import CrashStateDisk
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log
from crashsim.disk.profile import DEFAULT_PROFILE
from crashsim.disk.request import PAGE_BYTES, Operation, Request
from crashsim.disk.state import CrashState
from crashsim.explore.deciding import Decider
from crashsim.explore.engine import LocalEngine
from crashsim.explore.exploration import Exploration
from crashsim.explore.exploring import Budget, explore
from crashsim.explore.timeline import Int64s, Timeline
from crashsim.explore.verdict import PRUNINGS, DecidedBy
from crashsim.machines.protocol import Guest, Recovery
from crashsim.machines.tree import Tree
from crashsim.oracles.protocol import Moment, Oracle, Property, Violation
from tests.support import toy_store


class ToyOracle:
    """Every value is whole (intact), and none older than promised (durable)."""

    properties: Sequence[Property] = (Property.INTACT, Property.DURABLE)

    def judge(self, tree: Tree, moment: Moment) -> list[Violation]:
        violations = []
        for key in tree.nodes:
            number = toy_store.value_number(tree.read(key) or b"")
            if number is None:
                detail = f"{key} holds no value that was ever stored"
                violations.append(Violation(Property.INTACT, "damaged-value", key, detail))
        for key, promised in dict(promise.split("=") for promise in moment.promises).items():
            content = tree.read(key)
            number = None if content is None else toy_store.value_number(content)
            if content is None or (number is not None and number < int(promised)):
                detail = f"{key} is older than put {promised}"
                violations.append(Violation(Property.DURABLE, "lost-promise", key, detail))
        return violations

    def exercise_key(self, tree: Tree, moment: Moment) -> object | None:
        return None

    def exercise(self, guest: Guest, root: str, tree: Tree, moment: Moment) -> list[Violation]:
        raise AssertionError("nothing to exercise")

    def second_opinion(self, guest: Guest, root: str) -> Mapping[str, str]:
        return {}


class ScrubbingOracle(ToyOracle):
    """Also reads, in the guest, a page that recovery never reads."""

    properties = (*ToyOracle.properties, Property.USABLE)

    def exercise_key(self, tree: Tree, moment: Moment) -> object | None:
        return tree.identity

    def exercise(self, guest: Guest, root: str, tree: Tree, moment: Moment) -> list[Violation]:
        assert isinstance(guest, ToyGuest)
        noise = guest.read_page(toy_store.NOISE_PAGE)
        if noise.rstrip(b"\0").endswith((b"1", b"3", b"4")):
            return [Violation(Property.USABLE, "noisy", "", "the noise is of a bad kind")]
        return []


@dataclass
class ToyGuest:
    """What the toy's exercise runs in."""

    read_page: Callable[[int], bytes]


@dataclass
class ToyAttempt:
    """A recovered toy store."""

    recovery: Recovery
    guest: ToyGuest
    disk: CrashStateDisk

    def pages_read(self) -> Int64s:
        return self.disk.pages_read()

    def exercise(self, oracle: Oracle, tree: Tree, moment: Moment) -> list[Violation]:
        return oracle.exercise(self.guest, "/", tree, moment)  # type: ignore[arg-type]

    def second_opinion(self, oracle: Oracle) -> Mapping[str, str]:
        return oracle.second_opinion(self.guest, "/")  # type: ignore[arg-type]


class ToyRecoverer:
    """Recovers in this process, through the same crash disk as a real guest."""

    def __init__(self, images: ImageIndex) -> None:
        self.disk = CrashStateDisk(images)
        self.recoveries = 0

    @contextmanager
    def recover(self, state: CrashState) -> Iterator[ToyAttempt]:
        self.recoveries += 1
        self.disk.show(state)
        yield ToyAttempt(toy_store.recover(self.read_page), ToyGuest(self.read_page), self.disk)

    def read_page(self, page: int) -> bytes:
        return self.disk.perform(Request(Operation.READ, page * PAGE_BYTES, PAGE_BYTES))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.disk.close()

    def abort(self) -> None:
        return None


@dataclass(frozen=True)
class Toy:
    """A recording of the toy store, ready to be explored. A context manager that closes its log."""

    log: Log
    images: ImageIndex
    timeline: Timeline

    @classmethod
    def record(
        cls, directory: Path, puts: Sequence[toy_store.Put], flaw: toy_store.Flaw | None = None
    ) -> "Toy":
        toy_store.record(directory, puts, flaw)
        log = Log.open(directory)
        return cls(log, ImageIndex(log), Timeline.of(log, DEFAULT_PROFILE))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close()

    def decider(
        self, prunings: frozenset[DecidedBy] = PRUNINGS, oracle: Oracle | None = None
    ) -> Decider:
        return Decider(self.images, self.timeline, oracle or ToyOracle(), prunings)

    def explore(
        self,
        *,
        states: int | None = None,
        jobs: int = 1,
        seed: int = 0,
        prunings: frozenset[DecidedBy] = PRUNINGS,
        oracle: Oracle | None = None,
    ) -> Exploration:
        decider = self.decider(prunings, oracle)
        engine = LocalEngine(decider, lambda: ToyRecoverer(self.images), jobs)
        return explore(
            decider, engine, Budget(states=states, seed=seed), DEFAULT_PROFILE.atomic_unit_bytes
        )

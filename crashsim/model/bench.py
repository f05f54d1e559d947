"""How many crash states a second are decided, on one core, if the check goes through all files."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha1

from crashsim.model.decide import Remembered, decide
from crashsim.model.models import MODELS
from crashsim.model.operations import Log
from crashsim.model.persistence import Model
from crashsim.model.simulated import Simulated
from crashsim.model.states import crash_states
from crashsim.model.tree import File, Tree

STATES_DEFAULT = 20_000
BASE_FILES = 60
NEW_FILES = 10


@dataclass(frozen=True, slots=True)
class Figure:
    """One model's figure.

    :ivar explored: ways to lose something that were looked at.
    :ivar distinct: the different filesystems among them; each was built and checked.
    :ivar broken: those in which the check found something wrong.
    """

    model: str
    possible: int
    explored: int
    distinct: int
    broken: int
    seconds: float

    @property
    def decided_per_second(self) -> float:
        """Different crash states decided each second."""
        return self.distinct / self.seconds


def measure(states: int = STATES_DEFAULT) -> Iterator[Figure]:
    """Decide so many states of one run under each model."""
    log = stored_objects()
    for model in MODELS.values():
        yield measure_model(log, model, states)


def measure_model(log: Log, model: Model, states: int) -> Figure:
    """Decide so many states of a log under one model; the time includes all preparation."""
    start = time.process_time()
    check = Remembered(DamagedObjects())
    decision = decide(crash_states(log, model, limit=states), check)
    seconds = time.process_time() - start
    return Figure(
        model.name,
        decision.possible,
        decision.explored,
        decision.distinct,
        len(decision.failures),
        seconds,
    )


def text(figures: Iterator[Figure]) -> Iterator[str]:
    """The figures as a table, line by line."""
    heads = ("possible", "explored", "distinct", "broken", "a second")
    yield f"{'model':<16}" + "".join(f"{each:>10}" for each in heads)
    for each in figures:
        yield (
            f"{each.model:<16}{each.possible:>10.3g}{each.explored:>10}{each.distinct:>10}"
            f"{each.broken:>8}{each.decided_per_second:>10.0f}"
        )


def stored_objects() -> Log:
    """A store of some files to which others are added, unsynced, as git does by default."""
    contents = [b"old %d " % number * 40 for number in range(BASE_FILES)]
    machine = Simulated(
        Tree.of(
            {f"objects/{number:02}/{_name(each)}": each for number, each in enumerate(contents)}
        )
    )
    for number in range(NEW_FILES):
        content = b"new %d " % number * 60
        shard = f"objects/new_{number}"
        temporary = f"objects/tmp_{number}"
        descriptor = machine.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o444)
        machine.write(descriptor, content)
        machine.close(descriptor)
        machine.make_directory(shard)
        machine.link(temporary, f"{shard}/{_name(content)}")
        machine.unlink(temporary)
    machine.promise(NEW_FILES)
    return machine.log


def _name(content: bytes) -> str:
    return sha1(content, usedforsecurity=False).hexdigest()


class DamagedObjects:
    """Finds objects whose content is not what their name says; looks once at equal files."""

    def __init__(self) -> None:
        """No file seen yet."""
        self._is_damaged: dict[tuple[str, int], bool] = {}

    def __call__(self, tree: Tree, _promises: tuple[object, ...]) -> str | None:
        """The path of one of them, or None."""
        known = self._is_damaged
        for path, node in tree.nodes.items():
            key = (path, node.digest)
            if key not in known:
                name = path.rpartition("/")[2]
                known[key] = (
                    isinstance(node, File)
                    and not name.startswith("tmp_")
                    and name != _name(node.content)
                )
            if known[key]:
                return path
        return None

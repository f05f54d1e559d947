"""The result of litmus tests: the JSON contract `crashsim.litmus/1`."""

from collections.abc import Sequence
from itertools import chain

import msgspec

from crashsim.campaigns.results import MachineResult, TornResult
from crashsim.errors import UsageError


class NotTogether(UsageError):
    """Results of different runs that cannot be put into one table."""


class Example(msgspec.Struct, frozen=True):
    """One crash state that shows an outcome, of the recording in the filesystem's directory.

    :ivar variant: what happened meanwhile.
    """

    variant: str
    cut: int
    dropped: list[int]
    torn: list[TornResult]


class SeenOutcome(msgspec.Struct, frozen=True):
    """An outcome that a real filesystem showed.

    :ivar stage: `ever`, at any moment since the first call began, or `after` all had returned.
    :ivar alone: in how many crash states while no other process synced anything.
    :ivar disturbed: in how many while an unrelated one did.
    :ivar allowed: whether the filesystem's model allows it; None where it has no model.
    """

    stage: str
    outcome: str
    alone: int
    disturbed: int
    allowed: bool | None
    example: Example


class UnseenOutcome(msgspec.Struct, frozen=True):
    """An outcome that the model allows and that no explored state showed: looseness."""

    stage: str
    outcome: str


class LitmusTestResult(msgspec.Struct, frozen=True):
    """One test on one filesystem."""

    name: str
    question: str
    setup: list[str]
    calls: list[str]
    seen: list[SeenOutcome]
    unseen: list[UnseenOutcome]


class LitmusFilesystemResult(msgspec.Struct, frozen=True):
    """All tests on one filesystem.

    :ivar model: the persistence model that it was held to; None: there is none for these options.
    :ivar states: how many crash states were explored, of which `recovered` by a recovery of their
        own and the others by a pruning.
    :ivar unmountable: in how many the filesystem did not mount.
    :ivar damaged: in how many with a torn write a file could not be read.
    :ivar inconclusive: about how many nothing could be said.
    """

    fs: str
    model: str | None
    tests: list[LitmusTestResult]
    runs: int
    states: int
    recovered: int
    unmountable: int
    inconclusive: int
    seconds: float
    damaged: int = 0

    @property
    def forbidden(self) -> list[tuple[str, SeenOutcome]]:
        """(test, outcome) that was seen though the model does not allow it."""
        return [
            (test.name, seen) for test in self.tests for seen in test.seen if seen.allowed is False
        ]


class LitmusResult(msgspec.Struct, frozen=True):
    """Everything.

    :ivar states_per_run: the most crash states explored of each test in each variant; None: every
        bounded strategy to its end.
    """

    machine: MachineResult
    seed: int
    states_per_run: int | None
    filesystems: list[LitmusFilesystemResult]
    schema: str = "crashsim.litmus/1"

    @property
    def _conditions(self) -> tuple[object, ...]:
        """What two results must have in common to be compared."""
        tests = [each.name for filesystem in self.filesystems[:1] for each in filesystem.tests]
        return self.schema, self.machine, self.seed, tests


def together(results: Sequence[LitmusResult]) -> LitmusResult:
    """One result of several on different filesystems, perhaps with different budgets.

    Raises NotTogether.
    """
    first = results[0]
    if any(each._conditions != first._conditions for each in results):
        raise NotTogether("results of different tests, machines or seeds make no one table")
    filesystems = list(chain.from_iterable(each.filesystems for each in results))
    if len({each.fs for each in filesystems}) != len(filesystems):
        raise NotTogether("a filesystem is in two of the results")
    budgets = [each.states_per_run for each in results if each.states_per_run is not None]
    return msgspec.structs.replace(
        first,
        filesystems=filesystems,
        states_per_run=max(budgets) if len(budgets) == len(results) else None,
    )

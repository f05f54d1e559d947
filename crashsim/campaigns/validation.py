"""The result of `crashsim validate`, as JSON: schema `crashsim.validate/1`."""

import msgspec

from crashsim.campaigns.results import RunResult
from crashsim.oracles.protocol import Blame


class Counterexample(msgspec.Struct, frozen=True):
    """The simplest crash in the model that breaks a property.

    :ivar operations: what was done, in this order; the crash is in or after the last.
    :ivar crash: where the power went and what was lost, a line each.
    """

    property: str
    rule: str
    detail: str
    operations: list[str]
    crash: list[str]
    lost: int


class ModelResult(msgspec.Struct, frozen=True):
    """What the model says of one filesystem.

    :ivar sequences: how many sequences of operations were crashed.
    :ivar possible: ways to lose something.
    :ivar distinct: crash states judged.
    :ivar broken: property -> how many of them break it.
    """

    model: str
    sequences: int
    possible: int
    distinct: int
    broken: dict[str, int]
    counterexamples: list[Counterexample] = []


class OperationCost(msgspec.Struct, frozen=True):
    """What one operation costs: calls by kind, and all calls that change or sync something."""

    operation: str
    flushes: int
    writeouts: int
    filesystem_syncs: int
    calls: int


class FilesystemValidation(msgspec.Struct, frozen=True):
    """One filesystem: what the method claims there, and what came of it.

    :ivar runs: on the real kernel; empty under `--quick`.
    :ivar holds: the properties that nothing broke: it may claim these.
    :ivar refuted: claimed properties that something broke.
    """

    fs: str
    claims: list[str]
    model: ModelResult
    runs: list[RunResult]
    holds: list[str]
    refuted: list[str]


class ValidationResult(msgspec.Struct, frozen=True):
    """A method's verdict.

    :ivar split: the directory of the repository that was a filesystem of its own; empty: none.
    """

    method: str
    filesystems: list[FilesystemValidation]
    cost: list[OperationCost]
    seed: int
    seconds: float
    split: str = ""
    schema: str = "crashsim.validate/1"

    @property
    def confirmed(self) -> bool:
        """Whether every claim held."""
        return not any(each.refuted for each in self.filesystems)


def broken_by_the_method(run: RunResult) -> frozenset[str]:
    """The properties that a run on a real kernel broke, but for what the filesystem is to blame
    for: one that does not mount after a torn write of its own breaks no method's claim."""
    blamed = {each.property for each in run.findings if each.blame != Blame.FILESYSTEM.value}
    return frozenset(
        name for name, counts in run.properties.items() if counts.violations and name in blamed
    )

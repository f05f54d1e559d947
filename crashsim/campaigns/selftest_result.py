"""The result of a selftest: the JSON contract `crashsim.selftest/1`."""

import msgspec

from crashsim.campaigns.results import MachineResult


class RunOutcome(msgspec.Struct, frozen=True):
    """What came of one twin of a program.

    :ivar expected: `caught` or `clean`.
    :ivar broken: in how many of `states` it broke what it promised.
    :ivar simplest: what the simplest of them takes: `a cut`, `a lost write`, `a torn write`.
    """

    program: str
    twin: str
    fs: str
    expected: str
    states: int
    broken: int
    simplest: str
    detail: str
    passed: bool


class HarnessOutcome(msgspec.Struct, frozen=True):
    """What came of a check of the harness itself."""

    name: str
    expected: str
    found: str
    passed: bool


class SelftestResult(msgspec.Struct, frozen=True):
    """Everything that a selftest found out.

    :ivar inconclusive: crash states that nothing could be said about; there is no verdict then.
    :ivar seconds: the whole of it, without making the image.
    """

    machine: MachineResult
    seed: int
    passed: bool
    programs: list[RunOutcome]
    harness: list[HarnessOutcome]
    inconclusive: int
    seconds: float
    schema: str = "crashsim.selftest/1"

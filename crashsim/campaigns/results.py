"""The result of a run, as the JSON contract `crashsim.run/1` has it (DESIGN section 5)."""

import msgspec


class MachineResult(msgspec.Struct, frozen=True):
    """Where the workload and the recoveries ran."""

    kind: str
    accel: str
    kernel: str


class LogResult(msgspec.Struct, frozen=True):
    """What was recorded between the workload's start and its end (set-up not counted)."""

    writes: int
    flushes: int
    bytes: int
    marks: int


class DecidedBy(msgspec.Struct, frozen=True):
    """How many explored states were decided by a real recovery, and by each pruning."""

    check: int = 0
    same_image: int = 0
    same_reads: int = 0
    same_tree: int = 0


class StatesResult(msgspec.Struct, frozen=True):
    """What was covered.

    `possible` counts every (cut, kept subset), torn ones not counted; None: more than 2**53.
    `distinct` counts different disk images among the explored ones.
    """

    possible: int | None
    distinct: int
    explored: int
    decided_by: DecidedBy
    coverage: str = ""


class PropertyResult(msgspec.Struct, frozen=True):
    """How many explored states one property was checked on, and how many broke it."""

    checked: int = 0
    violations: int = 0


class TornResult(msgspec.Struct, frozen=True):
    """A torn write of a finding."""

    write: int
    kept_units: list[int]


class WriteNote(msgspec.Struct, frozen=True):
    """One write of the log in words: what it belongs to."""

    write: int
    offset_bytes: int
    length_bytes: int
    what: str


class Finding(msgspec.Struct, frozen=True):
    """A violation with its shrunk state and explanation.

    `cut` is an event position, `dropped` and `torn[].write` are request numbers, of the recording
    that is in the bundle. `explanation` is a list of sentences. `needed` are the lost writes of
    which each, restored alone, makes the violation go away.
    """

    id: str
    property: str
    rule: str
    subject: str
    detail: str
    blame: str
    cut: int
    dropped: list[int]
    torn: list[TornResult]
    explanation: list[str]
    needed: list[int] = []
    states: int = 1
    step: str = ""
    writes: list[WriteNote] = []
    bundle: str | None = None


class Seconds(msgspec.Struct, frozen=True):
    """Where the time went, in seconds."""

    boot: float = 0.0
    record: float = 0.0
    explore: float = 0.0
    shrink: float = 0.0
    total: float = 0.0


class RunResult(msgspec.Struct, frozen=True):
    """One run.

    `flushes_cost` counts the FLUSH requests of the workload alone, recorded without disturbances.
    """

    target: str
    fs: str
    fsync: str
    method: str
    machine: MachineResult
    seed: int
    log: LogResult
    states: StatesResult
    properties: dict[str, PropertyResult]
    findings: list[Finding]
    seconds: Seconds
    inconclusive: int = 0
    flushes_cost: int | None = None
    disturbances: list[str] = []
    schema: str = "crashsim.run/1"


class MatrixResult(msgspec.Struct, frozen=True):
    """A matrix: one run a cell."""

    cells: list[RunResult]
    schema: str = "crashsim.matrix/1"

"""The result of a run, as the JSON contract `crashsim.run/1` has it (DESIGN section 5)."""

import msgspec

from crashsim.machines.protocol import MachineInfo


class MachineResult(msgspec.Struct, frozen=True):
    """Where the workload and the recoveries ran."""

    kind: str
    accel: str
    kernel: str

    @classmethod
    def of(cls, info: MachineInfo) -> "MachineResult":
        """What a result tells of a machine."""
        return cls(info.kind, info.accel, info.kernel)


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


class FirstCut(msgspec.Struct, frozen=True):
    """The power cut of the first life whose recovery was cut, too.

    Numbers are those of the run's own recording, `step` is the step that was under way in it.
    """

    cut: int
    step: str
    dropped: list[int]
    torn: list[TornResult]


class Finding(msgspec.Struct, frozen=True):
    """A violation with its shrunk state and explanation.

    `cut` is an event position, `dropped` and `torn[].write` are request numbers, of the recording
    that is in the bundle. `explanation` is a list of sentences. `needed` are the lost writes of
    which each, restored alone, makes the violation go away. `first_cut` is there where the
    recording is one of a recovery, and its base image is what that cut left.
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
    first_cut: FirstCut | None = None


class Seconds(msgspec.Struct, frozen=True):
    """Where the time went, in seconds."""

    boot: float = 0.0
    record: float = 0.0
    explore: float = 0.0
    shrink: float = 0.0
    nested: float = 0.0
    total: float = 0.0


class StepOutcomeResult(msgspec.Struct, frozen=True):
    """How a step ended on a disk that fails: its exit code and the last line that it printed.

    :ivar failed_requests: how many requests of the disk had failed by then.
    """

    step: str
    code: int
    said: str
    failed_requests: int


class FailedRequest(msgspec.Struct, frozen=True):
    """A request that the disk failed, with EIO."""

    operation: str
    offset_bytes: int
    length_bytes: int


class FaultResult(msgspec.Struct, frozen=True):
    """What came of a fault (`--fault`).

    :ivar fault: as it was asked for.
    :ivar outcomes: of the steps, up to the first that failed; the others were promised.
    :ivar aftermath: what could not be read or synced when all was over.
    :ivar reboot: violations of what had been promised, as a reboot without a power cut shows them.
    :ivar inconclusive: why the reboot could not be judged; empty where it was.
    """

    fault: str
    failed: list[FailedRequest]
    outcomes: list[StepOutcomeResult]
    aftermath: list[str]
    reboot: list[str]
    inconclusive: str = ""


class LifeResult(msgspec.Struct, frozen=True):
    """One life, and what its successor found of it.

    :ivar step: the one that was under way when the power was cut; empty: the recovery was.
    :ivar dropped: how many writes were lost; `torn` besides.
    :ivar promises: how many were in force at the cut, those of the lives before counted as one.
    :ivar held: how many of them still held.
    :ivar sent: what the disk had been sent before the cut, by the recovery, too.
    :ivar violations: `property: rule`.
    :ivar tidied: what was tidied up before work went on, a word for each file.
    :ivar fresh: it began with a new repository.
    :ivar repository_bytes: size of all files of the git directory as the life found them.
    """

    number: int
    step: str
    cut: int
    sent: LogResult
    pending: int
    dropped: int
    torn: int
    promises: int
    held: int
    violations: list[str]
    tidied: list[str]
    fresh: bool
    repository_bytes: int
    seconds: float


class LiveResult(msgspec.Struct, frozen=True):
    """What came of consecutive lives of one repository.

    :ivar lives: how many were lived; each ended with a power cut.
    :ivar repositories: how many it took: 1 where the first one is still alive.
    :ivar promises: acknowledged before a cut, over all lives.
    :ivar promises_held: of those, the ones that held after recovery.
    :ivar lives_with_loss: lives after which some promise did not hold.
    :ivar deepest_loss: how many promises one cut took at most, counted from the last one.
    :ivar earlier_lost: lives after which something was lost that an earlier life had promised and
        that had been recovered since.
    :ivar tidied: why files were removed or cut between lives -> how many.
    """

    cut_at: str
    sequence: str
    lives: int
    cuts: int
    repositories: int
    promises: int
    promises_held: int
    lives_with_loss: int
    deepest_loss: int
    earlier_lost: int
    tidied: dict[str, int]
    each: list[LifeResult]


class RecoveryResult(msgspec.Struct, frozen=True):
    """One recovery that was recorded and cut.

    :ivar first_cut: the power cut that it recovers from.
    :ivar promises: how many were in force then.
    :ivar pages_changed: how many pages of the disk the mount alone changed.
    :ivar log: what the mount and the program's own recovery sent to the disk.
    :ivar mount_states: how many of its states were cut before the program's own recovery began.
    :ivar violations: `property: rule`, of its nested states or of the recovery itself.
    :ivar inconclusive: why it could not be recorded; empty where it was.
    """

    first_cut: FirstCut
    promises: int
    pages_changed: int
    log: LogResult
    states: StatesResult
    mount_states: int
    violations: list[str]
    inconclusive: str = ""


class NestedResult(msgspec.Struct, frozen=True):
    """What came of recoveries that were cut, too (`--depth 2`).

    :ivar sound_states: how many different disks held everything, of which some were chosen.
    :ivar states: of all recoveries together; `distinct` counts within each.
    :ivar properties: of all nested states.
    """

    sound_states: int
    recoveries: int
    log: LogResult
    states: StatesResult
    mount_states: int
    properties: dict[str, PropertyResult]
    inconclusive: int
    each: list[RecoveryResult]


class RunResult(msgspec.Struct, frozen=True):
    """One run.

    `flushes_cost` counts the FLUSH requests of the workload alone, recorded without disturbances.
    `live` is there for live cuts: one state was looked at after each life then. `fault` is there
    for a disk that failed. `nested` is there where recoveries were cut, too: what it found is in
    `findings`, its counts are its own.
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
    live: LiveResult | None = None
    fault: FaultResult | None = None
    nested: NestedResult | None = None
    schema: str = "crashsim.run/1"


class MatrixResult(msgspec.Struct, frozen=True):
    """A matrix: one run a cell."""

    cells: list[RunResult]
    schema: str = "crashsim.matrix/1"

"""What a workload says when its disk fails: the outcome of each step, for a recording to go on."""

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from crashsim.disk.faults import BadFault, DiskFault, FaultyDisk, parse_disk_fault
from crashsim.disk.server import Disk
from crashsim.errors import CrashsimError, InfrastructureError
from crashsim.machines.failures import GuestDied
from crashsim.machines.protocol import CommandResult, Guest

_LAST_WORDS_BYTES = 300

_FILL = """
mkdir -p "$1"
cd "$1"
dd if=/dev/zero of=spare bs=1024 count="$2" conv=fsync status=none
# What statfs(2) calls free may be kept back, or be needed to write the rest: that is found out.
for free in %f %a; do
    fallocate -l "$(( $(stat -f -c "$free * %S" .) ))" most 2>/dev/null && break
done
dd if=/dev/zero of=rest bs=4096 conv=fsync status=none 2>/dev/null || :
sync -f .
rm spare
sync -f .
"""
"""Fill the filesystem, all but KIB ($2), with files in a directory ($1)."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What fails, as the command line has it.

    :ivar text: as the user wrote it.
    :ivar disk: requests of the disk that fail.
    :ivar free_bytes: the filesystem is filled up before, until so much is left.
    """

    text: str
    disk: DiskFault | None = None
    free_bytes: int | None = None

    def trouble(self, disk: Disk) -> "Trouble":
        """For one recording on `disk`."""
        faulty = None if self.disk is None else FaultyDisk(disk, self.disk)
        return Trouble(faulty, self.free_bytes)


def parse_fault(text: str) -> Fault:
    """`free:KIB`, or what `parse_disk_fault` takes. Raises BadFault."""
    kind, _, rest = text.partition(":")
    if kind != "free":
        return Fault(text, disk=parse_disk_fault(text))
    if not rest.isdecimal():
        raise BadFault(f"--fault {text}: write free:N for N KiB of free space")
    return Fault(text, free_bytes=int(rest) << 10)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """How one step ended.

    :ivar code: its exit code; minus the number of the signal that killed it.
    :ivar said: the first line that it printed of an error; the last of all if none looks like one.
    :ivar failed_requests: how many requests of the disk had failed by then.
    """

    step: str
    code: int
    said: str
    failed_requests: int


_ERROR = re.compile(r"\b(?:fatal|error)\b", re.IGNORECASE)


def _telling_line(text: str) -> str:
    lines = text.splitlines() or [""]
    return next((line for line in lines if _ERROR.search(line)), lines[-1])


@dataclass(slots=True)
class Trouble:
    """What came of a fault.

    :ivar disk: the disk that fails; None: it is sound.
    :ivar free_bytes: as of `Fault`.
    :ivar outcomes: of the steps, up to the first that failed.
    :ivar aftermath: the filesystem could not be read, or not be synced, when all was over.
    """

    disk: FaultyDisk | None = None
    free_bytes: int | None = None
    outcomes: list[StepOutcome] = field(default_factory=list)
    aftermath: list[str] = field(default_factory=list)

    def begin(self) -> None:
        """The set-up is over: from here on the disk fails."""
        if self.disk is not None:
            self.disk.arm()

    def note(self, step: str, result: CommandResult) -> bool:
        """Note how a step ended; whether it succeeded, so that what it did is promised."""
        text = (result.stderr.strip() or result.stdout.strip()).decode("utf-8", "replace")
        said = _telling_line(text)[-_LAST_WORDS_BYTES:]
        failed = 0 if self.disk is None else len(self.disk.failed)
        code = -9 if result.timed_out else result.returncode
        self.outcomes.append(StepOutcome(step, code, said, failed))
        return code == 0

    def tolerate(self, what: str, action: Callable[[], None]) -> bool:
        """Do what may fail on such a disk; whether it went well. Raises GuestDied."""
        try:
            action()
        except GuestDied:
            raise
        except CrashsimError as error:
            if not isinstance(error, InfrastructureError):
                raise
            self.aftermath.append(f"{what}: {str(error).partition(chr(10))[0][:_LAST_WORDS_BYTES]}")
            return False
        return True

    def told(self) -> dict[str, Any]:
        """All of it, for the manifest."""
        failed = [] if self.disk is None else self.disk.failed
        return {
            "outcomes": [asdict(outcome) for outcome in self.outcomes],
            "aftermath": list(self.aftermath),
            "failed": [
                {
                    "operation": request.operation.name,
                    "offset_bytes": request.offset_bytes,
                    "length_bytes": request.length_bytes,
                }
                for request in failed
            ],
        }

    def fill(self, guest: Guest, root: str, directory: str) -> None:
        """Leave `free_bytes` of the filesystem to the workload."""
        if self.free_bytes is None:
            return
        arguments = (f"{root}/{directory}", str(self.free_bytes >> 10))
        result = guest.run(["sh", "-euc", _FILL, "sh", *arguments], timeout_seconds=300)
        if result.returncode != 0:
            told = result.stderr.decode("utf-8", "replace").strip()
            raise InfrastructureError(f"the filesystem could not be filled up: {told}")

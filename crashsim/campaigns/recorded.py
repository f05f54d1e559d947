"""A recording opened for exploring: its log, its disk images, and how they are decided."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from crashsim.campaigns.targets import make_oracle
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log
from crashsim.disk.profile import DeviceProfile
from crashsim.disk.recording import Recording, RecordingUnreadable
from crashsim.explore.deciding import Decider
from crashsim.explore.guests import GuestRecoverer
from crashsim.explore.timeline import Timeline
from crashsim.explore.verdict import PRUNINGS, DecidedBy
from crashsim.faults.disturbances import EXCLUDE
from crashsim.machines.filesystems import Filesystem
from crashsim.machines.protocol import Machine
from crashsim.oracles.protocol import Oracle

SLOT = 0


@dataclass(frozen=True)
class Recorded:
    """Everything that deciding a recording's crash states takes, except guests."""

    log: Log
    images: ImageIndex
    timeline: Timeline
    oracle: Oracle
    filesystem: Filesystem
    collect: Sequence[str]
    profile: DeviceProfile

    def decider(self, prunings: frozenset[DecidedBy] = PRUNINGS) -> Decider:
        """What was learnt about this recording's states: nothing yet."""
        return Decider(self.images, self.timeline, self.oracle, prunings)

    def recoverer(self, machine: Machine) -> GuestRecoverer:
        """A worker's guest and crash disk, not started yet."""
        return GuestRecoverer(
            machine,
            self.images,
            self.filesystem.mount(SLOT),
            exclude=EXCLUDE,
            collect=self.collect,
        )


@contextmanager
def open_recorded(
    directory: Path,
    filesystem: Filesystem,
    oracle: Mapping[str, Any],
    collect: Sequence[str],
    profile: DeviceProfile,
) -> Iterator[Recorded]:
    """Open the recording in `directory`.

    :param oracle: how to judge, as `make_oracle` takes it.
    :param collect: below which prefixes the oracle needs contents.

    Raises LogDamaged, RecordingUnreadable and BadOracle.
    """
    recording = Recording.open(directory)
    with recording.log() as log:
        if log.disks != filesystem.disks:
            raise RecordingUnreadable(
                f"{directory}: the log is of {log.disks} disk(s), {filesystem.spelling} has "
                f"{filesystem.disks}"
            )
        yield Recorded(
            log=log,
            images=ImageIndex(log, profile, recording.base),
            timeline=Timeline.of(log, profile),
            oracle=make_oracle(oracle, [mark.text for mark in log.marks]),
            filesystem=filesystem,
            collect=collect,
            profile=profile,
        )

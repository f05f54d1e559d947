"""What fsync(2) is worth after it has failed, on real filesystems.

Each probe has a guest and a disk of its own: files are made durable, then one request of the disk
fails (a write of the new data, or the next flush), while a program writes, syncs, and syncs again.
Then the guest is killed, and another one mounts the disk as it is: every write but the failed one.
"""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from crashsim.campaigns.options import Progress, no_progress
from crashsim.campaigns.results import MachineResult
from crashsim.disk.faults import FLUSHES, WRITES, DiskFault, FaultyDisk
from crashsim.disk.image import ImageIndex
from crashsim.disk.log import Log
from crashsim.disk.recording import Manifest, Recording
from crashsim.disk.recording_disk import RecordingDisk
from crashsim.disk.state import CrashState
from crashsim.errors import InfrastructureError
from crashsim.explore.guests import GuestRecoverer
from crashsim.machines.filesystems import Filesystem
from crashsim.machines.hardware import CRASH_DISK_BYTES
from crashsim.machines.protocol import Machine, Recovery
from crashsim.workloads import failed_sync
from crashsim.workloads.failed_sync import NEW, SHAPES, word

SLOT = 0
_ROOT = f"/mnt/{SLOT}"
_SCRIPT = "/run/crashsim-failed-sync.py"
FAULTS = {
    "data": DiskFault(WRITES, content=NEW[:512]),
    "flush": DiskFault(FLUSHES),
}
"""What fails, once: a write of the new data, or the first flush of the cache."""


class ProbeFailed(InfrastructureError):
    """The probe itself did not run, whatever the disk did."""


class FailedSyncProbe(msgspec.Struct, frozen=True):
    """One probe: what each call said (`0`, or an errno's name), and what reads showed.

    :ivar fault: a key of FAULTS.
    :ivar after_reboot: what the file holds then; the errno where it does not mount.
    :ivar anew_after_reboot: the same of the file that was written next (`rewrite`): `more` it is.
    """

    fs: str
    shape: str
    fault: str
    told: dict[str, str]
    after_reboot: str
    anew_after_reboot: str

    @property
    def is_silent(self) -> bool:
        """Whether a sync returned 0 after one had failed, and the data is not on the disk."""
        again = (self.told["fsync again"], self.told["reopened fsync"])
        return self.told["fsync"] != "0" and "0" in again and "new" not in self.after_reboot


class FailedSyncResult(msgspec.Struct, frozen=True):
    """All probes of a run."""

    machine: MachineResult
    probes: list[FailedSyncProbe]
    schema: str = "crashsim.failed-sync/1"


@dataclass(frozen=True, slots=True)
class _Probe:
    filesystem: Filesystem
    shape: str
    fault: str


def probe_failed_syncs(
    machine: Machine,
    filesystems: Sequence[Filesystem],
    directory: Path,
    progress: Progress = no_progress,
) -> FailedSyncResult:
    """Every shape and fault on each filesystem; recordings go below `directory`.

    Raises InfrastructureError.
    """
    probes = [
        _Probe(filesystem, shape, fault)
        for filesystem in filesystems
        for fault in FAULTS
        for shape in SHAPES
        if not (fault == "flush" and shape == "writeout")  # it flushes nothing
    ]
    found = []
    for number, probe in enumerate(probes):
        progress(f"{probe.filesystem.spelling} {probe.fault} {probe.shape}", number, len(probes))
        found.append(_run(machine, probe, directory / str(number)))
    info = machine.info
    return FailedSyncResult(MachineResult.of(info), found)


def _run(machine: Machine, probe: _Probe, directory: Path) -> FailedSyncProbe:
    manifest = Manifest(disk_size_bytes=CRASH_DISK_BYTES, filesystem=probe.filesystem.fstype)
    recording = Recording.create(directory, manifest)
    mount = probe.filesystem.mount(SLOT)
    with (
        recording.writer() as writer,
        closing(RecordingDisk(writer, CRASH_DISK_BYTES)) as sound,
        machine.start() as guest,
    ):
        disk = FaultyDisk(sound, FAULTS[probe.fault])
        guest.attach(SLOT, disk)
        guest.format(SLOT, probe.filesystem.fstype, probe.filesystem.mkfs_argv)
        guest.mount(mount)
        guest.write_file(_SCRIPT, Path(failed_sync.__file__).read_bytes())
        for words in (("prepare", _ROOT), ("probe", _ROOT, probe.shape)):
            result = guest.run(["python3", _SCRIPT, *words])
            if result.returncode != 0:
                said = result.stderr.decode("utf-8", "replace").strip()
                raise ProbeFailed(f"{probe.filesystem.spelling}, {words[0]}: {said}")
            disk.arm()
        guest.kill()
        if not disk.failed:
            raise ProbeFailed(f"{probe.filesystem.spelling}: no {probe.fault} request came")
    with recording.log() as log:
        recoverer = GuestRecoverer(machine, ImageIndex(log), mount)
        with recoverer, recoverer.recover(_rebooted(log)) as attempt:
            after = [_word_of(attempt.recovery, probe.shape + end) for end in ("", ".new")]
    return FailedSyncProbe(
        probe.filesystem.spelling, probe.shape, probe.fault, json.loads(result.stdout), *after
    )


def _rebooted(log: Log) -> CrashState:
    """Every write but those that failed."""
    failed = (log.requests.error != 0) & log.requests.changes_media
    return CrashState(log.event_count, frozenset(np.flatnonzero(failed).tolist()))


def _word_of(recovery: Recovery, name: str) -> str:
    if recovery.tree is None:
        return recovery.mount_error
    if name not in recovery.tree.nodes:
        return "missing"
    content = recovery.tree.read(name)
    return recovery.tree.nodes[name].digest if content is None else word(content)

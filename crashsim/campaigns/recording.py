"""Recording a target as a run's options say, and opening what came of it."""

from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from crashsim.campaigns.explaining import Snapshots
from crashsim.campaigns.options import Progress, RunOptions
from crashsim.campaigns.recorded import Recorded, open_recorded
from crashsim.campaigns.targets import Target
from crashsim.machines.protocol import Machine
from crashsim.workloads.origin import Enough, Origin
from crashsim.workloads.record import record


def record_target(
    target: Target,
    options: RunOptions,
    machine: Machine,
    directory: Path,
    progress: Progress,
    snapshots: Snapshots | None = None,
    *,
    origin: Origin | None = None,
    enough: Enough = lambda _name, _log: False,
) -> None:
    """Record the target's workload in `directory`, with how it was made.

    :param snapshots: takes the trees after each step. Without it the recording is a quiet one,
        without disturbances and promises: good for counting what the workload alone does.
    :param origin: as `record` takes it.
    :param enough: as `record` takes it.
    """
    disturbances = () if snapshots is None else options.disturbances
    promise = None
    if snapshots is not None and target.promise is not None:
        promise = snapshots.keeping(target.promise)
    recording = record(
        machine,
        target.workload,
        options.filesystem,
        directory,
        disturbances=disturbances,
        seed=options.seed,
        promise=promise,
        latency=options.profile.latency,
        origin=origin,
        enough=enough,
        fault=None if snapshots is None else options.fault,
        progress=progress,
    )
    details = {
        **recording.manifest.details,
        "oracle": dict(target.oracle),
        "collect": list(target.workload.collect),
        "device": options.profile.name,
    }
    recording.with_manifest(msgspec.structs.replace(recording.manifest, details=details))


def open_target(
    target: Target, options: RunOptions, directory: Path
) -> AbstractContextManager[Recorded]:
    """`open_recorded` for a recording that was made of `target` with `options`."""
    return open_recorded(
        directory,
        options.filesystem,
        target.oracle,
        tuple(target.workload.collect),
        options.profile,
    )
